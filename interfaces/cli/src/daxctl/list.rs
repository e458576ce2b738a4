//! `lode daxctl list`.

use super::selection::{device, region};
use crate::failure::Failure;
use crate::ndctl::list::inventory;
use crate::ndctl::listing_output;
use crate::output::Output;
use crate::platform::MachineLocation;
use clap::Args;
use lode_platform::ndctl::DaxRequest;

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only the region with this number, or all; without -D and -R, includes regions
    #[arg(short, long, value_name = "REGION")]
    region: Option<String>,
    /// Only this device, as dax0.1 or 0.1, or all; without -D and -R, includes devices
    #[arg(short, long, value_name = "DEVICE")]
    dev: Option<String>,
    /// Include devices; the default without -R
    #[arg(short = 'D', long)]
    devices: bool,
    /// Include their regions
    #[arg(short = 'R', long)]
    regions: bool,
    /// Include the ranges of devices; real machines tell them to root only
    #[arg(short = 'M', long)]
    mappings: bool,
    /// Include devices of size 0
    #[arg(short, long)]
    idle: bool,
    /// Print sizes in human-readable form
    #[arg(short = 'u', long)]
    human: bool,
}

impl List {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let List { devices, regions, mappings, idle, human, .. } = *self;
        let (only_region, only_device) = (self.region.as_deref(), self.dev.as_deref());
        let selects = devices || regions;
        let request = DaxRequest {
            // A filter for all includes what it filters.
            devices: devices || (!selects && only_device.is_some()),
            regions: regions || (!selects && only_region.is_some()),
            mappings,
            idle,
            human,
            region: region(only_region)?,
            device: only_device.filter(|name| *name != "all").map(device).transpose()?,
        };
        Ok(listing_output("", &inventory(location)?.list_dax(&request)))
    }
}
