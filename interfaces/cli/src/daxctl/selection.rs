//! Devices and regions in the arguments of daxctl.

use crate::failure::Failure;
use clap::Args;
use lode_platform::Platform;
use lode_platform::dax::{self, DeviceId};
use lode_platform::ndctl::device_number;

/// The options of commands on devices.
#[derive(Args, Debug)]
pub(super) struct Devices {
    /// Names of devices, as dax0.1 or 0.1, or all
    #[arg(required = true, value_name = "DEVICE")]
    names: Vec<String>,
    #[command(flatten)]
    pub(super) base: BaseOptions,
}

/// The options of all commands that change devices.
#[derive(Args, Debug)]
pub(super) struct BaseOptions {
    /// Only devices of the region with this number, or of all
    #[arg(short, long, value_name = "REGION")]
    region: Option<String>,
    /// Print sizes in human-readable form
    #[arg(short = 'u', long)]
    pub(super) human: bool,
    /// Accepted for compatibility with daxctl; without effect
    #[arg(short, long)]
    verbose: bool,
}

impl BaseOptions {
    /// Returns the number of the selected region; `None` selects all.
    pub(super) fn region(&self) -> Result<Option<u32>, Failure> {
        region(self.region.as_deref())
    }
}

impl Devices {
    /// Returns the selected devices.
    ///
    /// # Errors
    /// Fails if a name is none of a device, or if no device is selected.
    pub(super) fn ids(&self, what: &str, platform: &Platform) -> Result<Vec<DeviceId>, Failure> {
        let region = self.base.region()?;
        let is_of_region = |id: &DeviceId| region.is_none_or(|region| id.region == region);
        let mut ids = Vec::new();
        for name in &self.names {
            match name.as_str() {
                "all" => {
                    let regions = dax::regions(platform);
                    ids.extend(regions.iter().flat_map(|region| &region.devices).map(|device| device.id));
                }
                name => ids.push(device(name)?),
            }
        }
        ids.retain(is_of_region);
        match ids.is_empty() {
            true => {
                let why = "the selection has no device; `lode daxctl list -i` lists them";
                Err(Failure::new(what, why))
            }
            false => Ok(ids),
        }
    }
}

/// Parses the name of a device.
pub(super) fn device(name: &str) -> Result<DeviceId, Failure> {
    DeviceId::parse(name)
        .ok_or_else(|| Failure::usage_error(format!("{name} is not the name of a device, as dax0.1")))
}

/// Parses the number of a region; `None` for all of them.
pub(super) fn region(word: Option<&str>) -> Result<Option<u32>, Failure> {
    let number = |word| {
        device_number(word, "region")
            .ok_or_else(|| Failure::usage_error(format!("{word} is not the number of a region, as 0")))
    };
    word.filter(|word| *word != "all").map(number).transpose()
}
