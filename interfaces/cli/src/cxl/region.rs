//! `lode cxl create-region`, `destroy-region`, `enable-region` and `disable-region`.

use super::selection::KindOption;
use super::tried::{Tried, counted};
use crate::failure::Failure;
use crate::ndctl::listing_output;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use crate::size;
use clap::Args;
use lode_platform::cxl::{self, CxlRegionRequest};
use lode_platform::{Platform, PlatformError, Purpose};
use std::cmp::Reverse;
use uuid::Uuid;

/// The options of all commands on regions.
#[derive(Args, Debug)]
struct BaseOptions {
    /// Only windows of this bus
    #[arg(short, long, value_name = "BUS")]
    bus: Option<String>,
    /// The root decoder of the window, as decoder0.0
    #[arg(short, long, value_name = "DECODER")]
    decoder: Option<String>,
    /// Accepted for compatibility with cxl; without effect
    #[arg(long)]
    debug: bool,
}

#[derive(Args, Debug)]
pub(super) struct Create {
    /// Names of devices, by position, as mem0 [default: those of the window]
    #[arg(value_name = "MEMDEV")]
    devices: Vec<String>,
    /// Size in bytes, or with K, M, G or T; 0 for as large as possible
    #[arg(short, long, default_value = "0", value_parser = size::parse)]
    size: u64,
    /// Number of devices
    #[arg(short, long, value_name = "N", allow_negative_numbers = true)]
    ways: Option<i32>,
    /// Bytes on one device before the region continues on the next one [default: that of the window]
    #[arg(short, long, value_name = "BYTES", allow_negative_numbers = true)]
    granularity: Option<i32>,
    /// Kind of memory
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "pmem")]
    kind: KindOption,
    /// The names are those of devices
    #[arg(short, long)]
    memdevs: bool,
    /// UUID of the region [default: random]
    #[arg(short = 'U', long)]
    uuid: Option<Uuid>,
    /// Print numbers in human-readable form
    #[arg(short = 'u', long)]
    human: bool,
    #[command(flatten)]
    base: BaseOptions,
}

impl Create {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "creating a region";
        let none = || counted("created", 0, "region");
        let Some(decoder) = self.base.decoder.clone() else {
            let why = "no root decoder specified; name one with -d, as `lode cxl list -D` lists them";
            return Err(Failure::new(what, why).after(none()));
        };
        if !self.devices.is_empty() && !self.memdevs {
            return Err(Failure::new(what, "must specify option for target object types (-m)").after(none()));
        }
        let positive = |value: Option<i32>, of: &str| match value {
            Some(value) if value <= 0 => {
                let why = format_args!("Invalid interleave {of}: {value}");
                Err(Failure::new(what, why).after(none()))
            }
            value => Ok(value.map(|value| value as u64)),
        };
        let ways = positive(self.ways, "ways")?.map(|ways| ways as usize);
        let request = CxlRegionRequest {
            decoder,
            bus: self.base.bus.clone(),
            devices: self.devices.clone(),
            kind: Some(self.kind.kind()),
            size: Some(self.size).filter(|size| *size > 0),
            ways,
            granularity: positive(self.granularity, "granularity")?,
            uuid: self.uuid,
        };
        let mut directory = location.open(Purpose::Change)?;
        let created = directory.change(|platform| cxl::create(platform, &request, Uuid::new_v4()));
        let number = created.map_err(|error: PlatformError| failed(what)(error).after(none()))?;
        let listing = cxl::inventory(directory.platform()).describe_region(number, self.human);
        let text = counted("created", 1, "region");
        Ok(listing_output("", &listing).followed_by(&text).with("count", 1))
    }
}

#[derive(Args, Debug)]
pub(super) struct RegionNames {
    /// Names of regions, as region0 or 0, or all
    #[arg(required = true, value_name = "REGION")]
    names: Vec<String>,
    #[command(flatten)]
    base: BaseOptions,
}

impl RegionNames {
    fn numbers(&self, platform: &Platform) -> (Vec<u32>, Vec<String>) {
        let inventory = cxl::inventory(platform);
        let (bus, decoder) = (self.base.bus.as_deref(), self.base.decoder.as_deref());
        let (mut numbers, mut notes) = (Vec::new(), Vec::new());
        for name in &self.names {
            let found = inventory.regions_called(name, bus, decoder);
            if found.is_empty() {
                notes.push(format!("no region matches {name}; `lode cxl list -Ri` lists them"));
            }
            numbers.extend(found);
        }
        // cxl takes each region once.
        numbers.sort_unstable();
        numbers.dedup();
        (numbers, notes)
    }

    pub(super) fn set_enabled(&self, location: &MachineLocation, enable: bool) -> Result<Output, Failure> {
        let (what, done) =
            if enable { ("enabling a region", "enabled") } else { ("disabling a region", "disabled") };
        let mut directory = location.open(Purpose::Change)?;
        let numbers = self.numbers(directory.platform());
        let tried = Tried::each(what, &mut directory, numbers, |platform, number| {
            cxl::set_enabled(platform, number, enable)
        })?;
        let text = counted(done, tried.done.len(), "region");
        tried.output(what, &text, true)
    }
}

#[derive(Args, Debug)]
pub(super) struct Destroy {
    /// Disable regions before they are destroyed
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    regions: RegionNames,
}

impl Destroy {
    /// Destroys regions, the last one first, since ports give up decoders in the reverse order.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "destroying a region";
        let mut directory = location.open(Purpose::Change)?;
        let (mut numbers, notes) = self.regions.numbers(directory.platform());
        let made = &directory.platform().state.cxl.regions;
        numbers.sort_by_key(|number| Reverse(made.iter().position(|region| region.number == *number)));
        let tried = Tried::each(what, &mut directory, (numbers, notes), |platform, number| {
            cxl::destroy(platform, number, self.force)
        })?;
        let text = counted("destroyed", tried.done.len(), "region");
        tried.output(what, &text, true)
    }
}
