//! `lode cxl enable-port`, `disable-port` and `disable-bus`.

use super::tried::{Tried, counted};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::MachineLocation;
use clap::Args;
use lode_platform::cxl::{self, CxlError};
use lode_platform::{Directory, Platform, PlatformError, Purpose};

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

/// Numbers of ports, and the refusals of names that are none.
type Selected = (Vec<u32>, Vec<CxlError>);

impl PortNames {
    fn selected(&self, platform: &Platform) -> Selected {
        let inventory = cxl::inventory(platform);
        let kind = if self.endpoint { "endpoint" } else { "port" };
        selected(&self.names, kind, |name| inventory.port_called(name, self.endpoint))
    }
}

/// Looks up each name of a kind of port.
fn selected(names: &[String], kind: &'static str, called: impl Fn(&str) -> Option<u32>) -> Selected {
    let (mut numbers, mut refusals) = (Vec::new(), Vec::new());
    for name in names {
        match called(name) {
            Some(number) => numbers.push(number),
            None => refusals.push(CxlError::UnknownPort { kind, name: name.clone() }),
        }
    }
    (numbers, refusals)
}

/// Runs `act` for each selected port. `text` returns the line for a number of ports.
fn change<E: Into<PlatformError>>(
    what: &'static str,
    directory: &mut Directory,
    (numbers, unknown): Selected,
    act: impl Fn(&mut Platform, u32) -> Result<(), E>,
    text: impl Fn(usize) -> String,
) -> Result<Output, Failure> {
    let mut tried = Tried::each(what, directory, (numbers, Vec::new()), act)?;
    tried.refusals.extend(unknown.into_iter().map(Into::into));
    let text = text(tried.done.len());
    tried.output(what, &text, false)
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
        let mut directory = location.open(Purpose::Change)?;
        let ports = self.ports.selected(directory.platform());
        let act = |platform: &mut Platform, port| cxl::enable_port(platform, port, self.enable_memdevs);
        change("enabling a port", &mut directory, ports, act, |count| counted("enabled", count, "port"))
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
        let mut directory = location.open(Purpose::Change)?;
        let ports = self.ports.selected(directory.platform());
        let act = |platform: &mut Platform, port| cxl::disable_port(platform, port, self.force);
        change("disabling a port", &mut directory, ports, act, |count| counted("disabled", count, "port"))
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
        let mut directory = location.open(Purpose::Change)?;
        let inventory = cxl::inventory(directory.platform());
        let buses = selected(&self.names, "bus", |name| inventory.bus_called(name));
        let act = |platform: &mut Platform, bus| cxl::disable_port(platform, bus, self.force);
        change("disabling a bus", &mut directory, buses, act, |count| match count {
            0..2 => format!("disabled {count} bus\n"),
            _ => format!("disabled {count} buses\n"),
        })
    }
}
