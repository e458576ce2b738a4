//! `lode daxctl create-device`, `destroy-device`, `enable-device` and `disable-device`.

use super::layout::Layout;
use super::selection::{BaseOptions, Devices};
use super::tried::Tried;
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use crate::size;
use clap::Args;
use lode_platform::dax::{self, DaxError, Destroyed};
use lode_platform::{PlatformError, Purpose};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(super) struct Create {
    /// Size in bytes, or with K, M, G or T [default: the free bytes of the region]
    #[arg(short, long, value_parser = size::parse)]
    size: Option<u64>,
    /// Alignment of mappings: 4K, 2M or 1G [default: 2M]
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    align: Option<u64>,
    /// Create the device in this file again, in its region and of its addresses: JSON of one device, as of list -M
    #[arg(long, value_name = "FILE", conflicts_with_all = ["size", "align", "region"])]
    input: Option<PathBuf>,
    #[command(flatten)]
    base: BaseOptions,
}

impl Create {
    /// Creates a device in each selected region of memory that firmware reserves.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "creating a device";
        let layout = self.input.as_deref().map(Layout::read).transpose()?;
        let only = layout.as_ref().map_or_else(|| self.base.region(), |layout| Ok(Some(layout.region)))?;
        let mut directory = location.open(Purpose::Change)?;
        let change = directory.change::<_, PlatformError>(|platform| {
            let divided = dax::regions(platform).into_iter().filter(|one| one.namespace.is_none());
            let regions = only.map_or_else(|| divided.map(|one| one.number).collect(), |one| vec![one]);
            let mut tried = Tried::default();
            for region in regions {
                let made = match &layout {
                    Some(layout) => dax::create_of(platform, region, &layout.ranges, layout.align),
                    None => dax::create(platform, region, self.size, self.align),
                };
                match made {
                    Ok(id) => tried.done.push(id),
                    Err(refusal) => tried.refuse(refusal),
                }
            }
            Ok(tried)
        });
        let tried = change.map_err(failed(what))?;
        if tried.is_empty() {
            let why =
                "the machine has no memory that firmware reserves, [[soft_reserved]] in its machine file";
            return Err(Failure::new(what, why));
        }
        tried.listed(what, &directory, self.base.human)
    }
}

#[derive(Args, Debug)]
pub(super) struct Destroy {
    /// Disable devices before they are destroyed
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    devices: Devices,
}

impl Destroy {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "destroying a device";
        let mut directory = location.open(Purpose::Change)?;
        let ids = self.devices.ids(what, directory.platform())?;
        let tried = Tried::each(what, &mut directory, &ids, |platform, id, tried| {
            match dax::destroy(platform, id, self.force)? {
                Destroyed::Removed => tried.done.push(id),
                Destroyed::Emptied => tried.refuse(DaxError::First { device: id }),
            }
            Ok(())
        })?;
        tried.counted(what, "destroyed")
    }
}

#[derive(Args, Debug)]
pub(super) struct Enable {
    #[command(flatten)]
    devices: Devices,
}

impl Enable {
    pub(super) fn run(&self, location: &MachineLocation, enable: bool) -> Result<Output, Failure> {
        let (what, done) =
            if enable { ("enabling a device", "enabled") } else { ("disabling a device", "disabled") };
        let mut directory = location.open(Purpose::Change)?;
        let ids = self.devices.ids(what, directory.platform())?;
        let tried = Tried::each(what, &mut directory, &ids, |platform, id, tried| {
            dax::enable(platform, id, enable)?;
            tried.done.push(id);
            Ok(())
        })?;
        tried.counted(what, done)
    }
}
