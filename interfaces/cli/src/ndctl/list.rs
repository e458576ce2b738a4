//! `lode ndctl list` and `lode daxctl list`.

use super::listing_output;
use super::namespace::ModeOption;
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, OpenedMachine};
use clap::{ArgAction, Args};
use lode_platform::ndctl::{self, DaxRequest, Included, Inventory, ListFilter, ListRequest};

#[derive(Args, Debug)]
pub(super) struct List {
    /// Include buses
    #[arg(short = 'B', long)]
    buses: bool,
    /// Include modules
    #[arg(short = 'D', long)]
    dimms: bool,
    /// Include regions
    #[arg(short = 'R', long)]
    regions: bool,
    /// Include namespaces; the default without any of these options
    #[arg(short = 'N', long)]
    namespaces: bool,
    /// Include the health that modules report
    #[arg(short = 'H', long)]
    health: bool,
    /// Include character devices
    #[arg(short = 'X', long)]
    device_dax: bool,
    /// Include each range that is known to be unreadable
    #[arg(short = 'M', long)]
    media_errors: bool,
    /// Include disabled devices
    #[arg(short, long)]
    idle: bool,
    /// Print sizes in human-readable form
    #[arg(short = 'u', long)]
    human: bool,
    /// Include more; twice for buses, modules and regions; three times for everything
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// List only this bus
    #[arg(short, long, value_name = "BUS")]
    bus: Option<String>,
    /// List only this module
    #[arg(short, long, value_name = "DIMM")]
    dimm: Option<String>,
    /// List only this region
    #[arg(short, long, value_name = "REGION")]
    region: Option<String>,
    /// List only this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// List only namespaces of this mode
    #[arg(short, long, value_name = "MODE")]
    mode: Option<ModeOption>,
}

impl List {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let included = Included {
            buses: self.buses,
            modules: self.dimms,
            regions: self.regions,
            namespaces: self.namespaces,
            health: self.health,
            dax: self.device_dax,
            media_errors: self.media_errors,
            idle: self.idle,
            verbose: self.verbose,
        };
        let filter = ListFilter {
            bus: self.bus.clone(),
            module: self.dimm.clone(),
            region: self.region.clone(),
            namespace: self.namespace.clone(),
            mode: self.mode.map(ModeOption::mode),
        };
        let request = ListRequest { included, filter, human: self.human };
        Ok(listing_output("", &inventory(location)?.list(&request)))
    }
}

fn inventory(location: &MachineLocation) -> Result<Inventory, Failure> {
    Ok(match location.open_read_only()? {
        OpenedMachine::Emulated(directory) => ndctl::inventory(directory.platform()),
        OpenedMachine::Real(sysfs) => sysfs.inventory(),
    })
}

#[derive(Args, Debug)]
pub(super) struct DaxList {
    /// Include devices; the default without -R
    #[arg(short = 'D', long)]
    devices: bool,
    /// Include their regions
    #[arg(short = 'R', long)]
    regions: bool,
    /// Include devices of size 0
    #[arg(short, long)]
    idle: bool,
    /// Print sizes in human-readable form
    #[arg(short = 'u', long)]
    human: bool,
}

impl DaxList {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let DaxList { devices, regions, idle, human } = *self;
        let request = DaxRequest { devices, regions, idle, human };
        Ok(listing_output("", &inventory(location)?.list_dax(&request)))
    }
}
