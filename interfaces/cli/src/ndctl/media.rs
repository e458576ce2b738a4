//! `lode ndctl inject-error`, `start-scrub` and `wait-scrub`.

use super::base::NamespaceFilter;
use super::{count_text, listing_output, listing_value};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use clap::Args;
use lode_platform::media_error::{self, Injection, MediaFault};
use lode_platform::ndctl::{self, BadBlocks, Included, ListFilter, ListRequest};
use lode_platform::{Platform, PlatformError, Purpose};
use std::fmt::Write;

#[derive(Args, Debug)]
pub(super) struct Inject {
    /// Name of the namespace, as namespace0.0
    #[arg(value_name = "NAMESPACE")]
    pub(super) name: String,
    /// The first sector of 512 bytes, counted from the start of the namespace's data
    #[arg(short = 'B', long, value_name = "N", required_unless_present = "status")]
    block: Option<u64>,
    /// Number of sectors
    #[arg(short = 'n', long, value_name = "N", required_unless_present = "status")]
    count: Option<u64>,
    /// Remove the errors from the medium; the kernel treats the sectors as bad until they are written
    #[arg(short = 'd', long, conflicts_with_all = ["clear", "status"])]
    uninject: bool,
    /// Remove the errors from the medium and from the kernel's list, as if the sectors had been written
    #[arg(long, conflicts_with = "status")]
    pub(super) clear: bool,
    /// Do not notify the kernel: it finds the errors by start-scrub, at the next start, or when it reads
    #[arg(short = 'N', long)]
    no_notify: bool,
    /// List all sectors that the medium has lost, including those that the kernel does not know of
    #[arg(short = 't', long, conflicts_with_all = ["block", "count", "no_notify"])]
    status: bool,
    /// Print numbers in human-readable form
    #[arg(short = 'u', long)]
    human: bool,
    /// Accepted for compatibility with ndctl: errors always fill whole sectors
    #[arg(short = 'S', long)]
    saturate: bool,
    #[command(flatten)]
    filter: NamespaceFilter,
}

/// The warning that ndctl prints after removing errors.
const UNINJECT_WARNING: &str = "\
Warning: Un-injecting previously injected errors here will
not cause the kernel to 'forget' its badblock entries. Those
have to be cleared through the normal process of writing
the affected blocks

";

impl Inject {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let (Some(block), Some(count)) = (self.block, self.count) else { return self.status(location) };
        let injection = match self {
            Inject { clear: true, .. } => Injection::Clear,
            Inject { uninject: true, .. } => Injection::Uninject,
            _ => Injection::Inject { notify: !self.no_notify },
        };
        let mut directory = location.open(Purpose::Change)?;
        self.filter.names(directory.platform(), &self.name)?;
        let change =
            directory.change(|platform| media_error::inject(platform, &self.name, block, count, injection));
        change.map_err(failed("injecting media errors"))?;
        let warning = if injection == Injection::Uninject { UNINJECT_WARNING } else { "" };
        let included = Included { media_errors: true, ..Included::default() };
        let namespace = ndctl::inventory(directory.platform()).describe(&self.name, &included, self.human);
        Ok(listing_output(warning, &namespace))
    }

    fn status(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let directory = location.open(Purpose::ReadOnly)?;
        self.filter.names(directory.platform(), &self.name)?;
        let lost = media_error::injected(directory.platform(), &self.name)
            .map_err(failed("listing injected media errors"))?;
        Ok(listing_output("", &if lost.is_empty() { String::new() } else { self.records(&lost) }))
    }

    /// Returns the injected ranges as ndctl prints them.
    fn records(&self, lost: &[BadBlocks]) -> String {
        let number = |number: u64| if self.human { format!("\"{number:#x}\"") } else { number.to_string() };
        let mut text = String::from("{\n  \"badblocks\":[");
        for (index, range) in lost.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let (block, count) = (number(range.offset), number(range.count));
            // Writing to a string does not fail.
            let _ =
                write!(text, "{comma}\n    {{\n      \"block\":{block},\n      \"count\":{count}\n    }}");
        }
        text + "\n  ]\n}\n"
    }
}

#[derive(Args, Debug)]
pub(super) struct Clear {
    /// Name of the namespace, as namespace0.0, or all
    #[arg(value_name = "NAMESPACE")]
    name: String,
    /// Search the modules first, to clear errors that the kernel does not know, too
    #[arg(short, long)]
    scrub: bool,
    #[command(flatten)]
    filter: NamespaceFilter,
}

impl Clear {
    /// Clears the errors of each namespace. If all are selected, skips those in mode sector and those in RAM.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let mut directory = location.open(Purpose::Change)?;
        let names = self.filter.names(directory.platform(), &self.name)?;
        let (mut cleared, mut failures) = (Vec::new(), Vec::new());
        for name in names {
            match directory.change(|platform| media_error::clear(platform, &name, self.scrub)) {
                Ok(_) => cleared.push(name),
                Err(PlatformError::Media(MediaFault::SectorMode { .. } | MediaFault::NoModules { .. }))
                    if self.name == "all" => {}
                Err(error) => failures.push(failed("clearing media errors")(error)),
            }
        }
        let included = Included { media_errors: true, ..Included::default() };
        let inventory = ndctl::inventory(directory.platform());
        let listed: Vec<String> =
            cleared.iter().map(|name| inventory.describe(name, &included, false)).collect();
        let text = listed.concat() + &count_text("cleared", cleared.len(), "namespace");
        let values: Vec<_> = listed.iter().map(|object| listing_value(object)).collect();
        match Failure::join(failures) {
            Some(failure) => Err(failure.after(text)),
            None => Ok(Output::text(text).with("count", cleared.len()).with("output", values)),
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct BusNames {
    /// Names of buses, as ndbus0; all that have modules if none is named
    #[arg(value_name = "BUS")]
    names: Vec<String>,
    /// Accepted for compatibility with ndctl; without effect
    #[arg(short, long)]
    verbose: bool,
}

impl BusNames {
    /// Scrubs all modules. The scrub of an emulated medium ends at once.
    pub(super) fn scrub(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let mut directory = location.open(Purpose::Change)?;
        let buses = self.list_buses(directory.platform())?;
        let scrubbed = directory.change::<_, PlatformError>(|platform| {
            media_error::scrub(platform);
            Ok(())
        });
        scrubbed.map_err(failed("scrubbing modules"))?;
        Ok(listing_output("", &buses))
    }

    /// Lists the buses at once, since every scrub has already ended.
    pub(super) fn wait(&self, location: &MachineLocation) -> Result<Output, Failure> {
        Ok(listing_output("", &self.list_buses(location.open(Purpose::ReadOnly)?.platform())?))
    }

    fn list_buses(&self, platform: &Platform) -> Result<String, Failure> {
        let list = |bus: Option<String>| {
            let included = Included { buses: true, ..Included::default() };
            let filter =
                ListFilter { bus: Some(bus.unwrap_or("ACPI.NFIT".to_owned())), ..ListFilter::default() };
            ndctl::inventory(platform).list(&ListRequest { included, filter, human: false })
        };
        if self.names.is_empty() {
            return Ok(list(None));
        }
        let mut text = String::new();
        for name in &self.names {
            let list_buses = list(Some(name.clone()));
            if list_buses.is_empty() {
                let why = format!("there is no bus {name}; `lode ndctl list -B` lists them");
                return Err(Failure::new("scrubbing modules", why));
            }
            text += &list_buses;
        }
        Ok(text)
    }
}
