//! `lode cxl enable-memdev`, `disable-memdev`, `reserve-dpa`, `free-dpa` and `set-partition`.

use super::selection::{KindOption, MemdevNames};
use super::tried::{Tried, counted};
use crate::failure::Failure;
use crate::ndctl::listing_value;
use crate::output::Output;
use crate::platform::MachineLocation;
use crate::size;
use clap::Args;
use lode_platform::cxl::{self, CxlError, DpaRequest, PartitionRequest};
use lode_platform::{Platform, Purpose};

#[derive(Args, Debug)]
pub(super) struct Enable {
    #[command(flatten)]
    memdevs: MemdevNames,
}

impl Enable {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "enabling a device";
        let mut directory = location.open(Purpose::Change)?;
        let numbers = self.memdevs.numbers(directory.platform())?;
        let tried = Tried::each(what, &mut directory, numbers, cxl::enable)?;
        let text = counted("enabled", tried.done.len(), "mem");
        tried.output(what, &text, false)
    }
}

#[derive(Args, Debug)]
pub(super) struct Disable {
    /// Disable devices though they are enabled, and may be a part of a region
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    memdevs: MemdevNames,
}

impl Disable {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "disabling a device";
        let mut directory = location.open(Purpose::Change)?;
        let numbers = self.memdevs.numbers(directory.platform())?;
        let disable = |platform: &mut Platform, device| cxl::disable(platform, device, self.force);
        let tried = Tried::each(what, &mut directory, numbers, disable)?;
        let text = counted("disabled", tried.done.len(), "mem");
        tried.output(what, &text, false)
    }
}

/// The options of both commands on the memory that decoders hold.
#[derive(Args, Debug)]
struct DpaOptions {
    /// The decoder, as decoder2.0 or 0 [default: the next one in the order]
    #[arg(short, long, value_name = "DECODER")]
    decoder: Option<String>,
    /// Try what is expected to fail
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    memdevs: MemdevNames,
}

#[derive(Args, Debug)]
pub(super) struct Reserve {
    /// Size in bytes, or with K, M, G or T [default: all that is free]
    #[arg(short, long, value_parser = size::parse)]
    size: Option<u64>,
    /// Kind of memory
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "pmem")]
    kind: KindOption,
    #[command(flatten)]
    options: DpaOptions,
}

impl Reserve {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let (what, done) = ("reserving memory of a device", "reservation completed on");
        let reserve = |platform: &mut Platform, device, request: &DpaRequest| {
            cxl::reserve(platform, device, self.size, request)
        };
        self.options.run(location, (what, done), Some(self.kind), reserve)
    }
}

#[derive(Args, Debug)]
pub(super) struct Free {
    /// Kind of memory: frees that of the last decoder which holds such [default: any]
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<KindOption>,
    #[command(flatten)]
    options: DpaOptions,
}

impl Free {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let (what, done) = ("freeing memory of a device", "reservation release completed on");
        self.options.run(location, (what, done), self.kind, cxl::free)
    }
}

impl DpaOptions {
    fn run(
        &self,
        location: &MachineLocation,
        (what, done): (&'static str, &str),
        kind: Option<KindOption>,
        act: impl Fn(&mut Platform, u32, &DpaRequest) -> Result<usize, CxlError>,
    ) -> Result<Output, Failure> {
        let request =
            DpaRequest { kind: kind.map(KindOption::kind), decoder: self.decoder.clone(), force: self.force };
        let mut directory = location.open(Purpose::Change)?;
        let numbers = self.memdevs.numbers(directory.platform())?;
        let tried = Tried::each(what, &mut directory, numbers, |platform, device| {
            Ok::<_, CxlError>((device, act(platform, device, &request)?))
        })?;
        let listing = cxl::inventory(directory.platform()).describe_decoders(&tried.done, false);
        listed(tried, what, &listing, done, "mem device")
    }
}

#[derive(Args, Debug)]
pub(super) struct SetPartition {
    /// Kind of memory whose size is given
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "pmem")]
    kind: KindOption,
    /// Its size in bytes, or with K, M, G or T [default: all]
    #[arg(short, long, value_parser = size::parse)]
    size: Option<u64>,
    /// Round the size to the unit of the device
    #[arg(short, long)]
    align: bool,
    #[command(flatten)]
    memdevs: MemdevNames,
}

impl SetPartition {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "dividing a device";
        let request = PartitionRequest { kind: Some(self.kind.kind()), size: self.size, align: self.align };
        let mut directory = location.open(Purpose::Change)?;
        let numbers = self.memdevs.numbers(directory.platform())?;
        let tried = Tried::each(what, &mut directory, numbers, |platform, device| {
            cxl::set_partition(platform, device, request).map(|()| device)
        })?;
        let listing = cxl::inventory(directory.platform()).describe_partitions(&tried.done, false);
        listed(tried, what, &listing, "set_partition", "mem")
    }
}

/// Returns the output with the changed devices as cxl lists them.
fn listed<T>(
    tried: Tried<T>,
    what: &'static str,
    listing: &str,
    done: &str,
    thing: &str,
) -> Result<Output, Failure> {
    let text = format!("{listing}{}", counted(done, tried.done.len(), thing));
    Ok(tried.output(what, &text, false)?.with("output", listing_value(listing)))
}
