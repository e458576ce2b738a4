//! `lode ndctl inject-error`, `start-scrub` and `wait-scrub`.

use super::printed;
use crate::answer::Answer;
use crate::failure::Failure;
use crate::platform::{Place, failed};
use clap::Args;
use lode_platform::ndctl::{BadBlocks, Included, ListFilter, ListRequest};
use lode_platform::{Injection, Platform, Purpose};
use std::fmt::Write;

#[derive(Args, Debug)]
pub(super) struct Inject {
    /// Its name, as namespace0.0
    #[arg(value_name = "NAMESPACE")]
    pub(super) name: String,
    /// The first sector of 512 bytes, counted from the start of the namespace's data
    #[arg(short = 'B', long, value_name = "N", required_unless_present = "status")]
    block: Option<u64>,
    /// How many sectors
    #[arg(short = 'n', long, value_name = "N", required_unless_present = "status")]
    count: Option<u64>,
    /// Make the medium whole again; the kernel goes on taking the sectors for bad until they are written
    #[arg(short = 'd', long, conflicts_with_all = ["clear", "status"])]
    uninject: bool,
    /// Make the medium whole again, and have the kernel know, as if the sectors had been written
    #[arg(long, conflicts_with = "status")]
    pub(super) clear: bool,
    /// Don't tell the kernel: it finds out by start-scrub, at the next start, or when it reads
    #[arg(short = 'N', long)]
    no_notify: bool,
    /// List what the medium has lost, whether the kernel knows or not
    #[arg(short = 't', long, conflicts_with_all = ["block", "count", "no_notify"])]
    status: bool,
    /// Print numbers for people
    #[arg(short = 'u', long)]
    human: bool,
}

/// What ndctl warns of.
const UNINJECTED: &str = "\
Warning: Un-injecting previously injected errors here will
not cause the kernel to 'forget' its badblock entries. Those
have to be cleared through the normal process of writing
the affected blocks

";

impl Inject {
    pub(super) fn run(&self, place: &Place) -> Result<Answer, Failure> {
        let (Some(block), Some(count)) = (self.block, self.count) else { return self.status(place) };
        let injection = match self {
            Inject { clear: true, .. } => Injection::Clear,
            Inject { uninject: true, .. } => Injection::Uninject,
            _ => Injection::Inject { notify: !self.no_notify },
        };
        let mut directory = place.open(Purpose::Change)?;
        let change = directory.change(|platform| platform.inject(&self.name, block, count, injection));
        change.map_err(failed("changing what a medium has lost"))?;
        let warning = if injection == Injection::Uninject { UNINJECTED } else { "" };
        let included = Included { media_errors: true, ..Included::default() };
        let namespace = directory.platform().inventory().describe(&self.name, &included, self.human);
        Ok(printed(format!("{warning}{namespace}")))
    }

    fn status(&self, place: &Place) -> Result<Answer, Failure> {
        let directory = place.open(Purpose::Look)?;
        let lost =
            directory.platform().injected(&self.name).map_err(failed("asking what a medium has lost"))?;
        Ok(printed(if lost.is_empty() { String::new() } else { self.records(&lost) }))
    }

    /// Ranges as ndctl tells of what was injected.
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
pub(super) struct Buses {
    /// Their names, as ndbus0; all that have modules when none is named
    #[arg(value_name = "BUS")]
    names: Vec<String>,
}

impl Buses {
    /// Searches all modules: an emulated medium is searched at once.
    pub(super) fn scrub(&self, place: &Place) -> Result<Answer, Failure> {
        let mut directory = place.open(Purpose::Change)?;
        let buses = self.listed(directory.platform())?;
        let scrubbed = directory.change(|platform| {
            platform.scrub();
            Ok(())
        });
        scrubbed.map_err(failed("searching modules"))?;
        Ok(printed(buses))
    }

    /// A search has ended before anybody can wait for it.
    pub(super) fn wait(&self, place: &Place) -> Result<Answer, Failure> {
        Ok(printed(self.listed(place.open(Purpose::Look)?.platform())?))
    }

    fn listed(&self, platform: &Platform) -> Result<String, Failure> {
        let list = |bus: Option<String>| {
            let included = Included { buses: true, ..Included::default() };
            let filter =
                ListFilter { bus: Some(bus.unwrap_or("ACPI.NFIT".to_owned())), ..ListFilter::default() };
            platform.list(&ListRequest { included, filter, human: false })
        };
        if self.names.is_empty() {
            return Ok(list(None));
        }
        let mut text = String::new();
        for name in &self.names {
            let listed = list(Some(name.clone()));
            if listed.is_empty() {
                let why = format!("there is no bus {name}; `lode ndctl list -B` lists them");
                return Err(Failure::new("searching modules", why));
            }
            text += &listed;
        }
        Ok(text)
    }
}
