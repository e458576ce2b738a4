//! `lode cxl enable-port`, `disable-port` and `disable-bus`.

use super::tried::{Tried, counted};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::MachineLocation;
use clap::Args;
use lode_platform::cxl::{self, CxlError};
use lode_platform::{Platform, Purpose};

#[derive(Args, Debug)]
struct PortNames {
    /// Names of ports, as port1 or 1
    #[arg(required = true, value_name = "PORT")]
    names: Vec<String>,
    /// The names are those of endpoints, as endpoint2 or 2
    #[arg(short, long)]
    endpoint: bool,
    /// Accepted for compatibility with cxl; without effect
    #[arg(long)]
    debug: bool,
}

impl PortNames {
    /// Returns the numbers of the ports, and the refusals of the names that are none.
    fn numbers(&self, platform: &Platform) -> (Vec<u32>, Vec<CxlError>) {
        let inventory = cxl::inventory(platform);
        let kind = if self.endpoint { "endpoint" } else { "port" };
        let (mut numbers, mut refusals) = (Vec::new(), Vec::new());
        for name in &self.names {
            match inventory.port_called(name, self.endpoint) {
                Some(number) => numbers.push(number),
                None => refusals.push(CxlError::UnknownPort { kind, name: name.clone() }),
            }
        }
        (numbers, refusals)
    }
}

#[derive(Args, Debug)]
pub(super) struct Enable {
    /// Enable the devices below the ports, too
    #[arg(short = 'm', long)]
    enable_memdevs: bool,
    #[command(flatten)]
    ports: PortNames,
}

impl Enable {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "enabling a port";
        let mut directory = location.open(Purpose::Change)?;
        let (numbers, unknown) = self.ports.numbers(directory.platform());
        let mut tried = Tried::each(what, &mut directory, (numbers, Vec::new()), |platform, port| {
            cxl::enable_port(platform, port, self.enable_memdevs)
        })?;
        tried.refusals.extend(unknown.into_iter().map(Into::into));
        let text = counted("enabled", tried.done.len(), "port");
        tried.output(what, &text, false)
    }
}

#[derive(Args, Debug)]
pub(super) struct Disable {
    /// Disable ports though devices below them are enabled, and may be a part of a region
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    ports: PortNames,
}

impl Disable {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "disabling a port";
        let mut directory = location.open(Purpose::Change)?;
        let (numbers, unknown) = self.ports.numbers(directory.platform());
        let mut tried = Tried::each(what, &mut directory, (numbers, Vec::new()), |platform, port| {
            cxl::disable_port(platform, port, self.force)
        })?;
        tried.refusals.extend(unknown.into_iter().map(Into::into));
        let text = counted("disabled", tried.done.len(), "port");
        tried.output(what, &text, false)
    }
}

#[derive(Args, Debug)]
pub(super) struct DisableBus {
    /// Name of the bus, as root0, 0 or ACPI.CXL
    #[arg(required = true, value_name = "BUS")]
    names: Vec<String>,
    /// Disable the bus though devices below it are enabled, and may be a part of a region
    #[arg(short, long)]
    force: bool,
    /// Accepted for compatibility with cxl; without effect
    #[arg(long)]
    debug: bool,
}

impl DisableBus {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "disabling a bus";
        let mut directory = location.open(Purpose::Change)?;
        let inventory = cxl::inventory(directory.platform());
        let (mut numbers, mut unknown) = (Vec::new(), Vec::new());
        for name in &self.names {
            match inventory.bus_called(name) {
                Some(number) => numbers.push(number),
                None => unknown.push(CxlError::UnknownPort { kind: "bus", name: name.clone() }),
            }
        }
        let mut tried = Tried::each(what, &mut directory, (numbers, Vec::new()), |platform, bus| {
            cxl::disable_port(platform, bus, self.force)
        })?;
        tried.refusals.extend(unknown.into_iter().map(Into::into));
        let text = match tried.done.len() {
            count @ 0..2 => format!("disabled {count} bus\n"),
            count => format!("disabled {count} buses\n"),
        };
        tried.output(what, &text, false)
    }
}
