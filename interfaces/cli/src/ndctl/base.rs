//! The options that most commands of ndctl have.

use super::number;
use crate::failure::Failure;
use clap::Args;
use lode_platform::Platform;
use lode_platform::namespace;
use lode_platform::ndctl::{self, NdBus};

#[derive(Args, Debug)]
pub(super) struct BaseOptions {
    /// Only devices of this bus, as ndbus0 or ACPI.NFIT
    #[arg(short, long, value_name = "BUS")]
    bus: Option<String>,
    /// Accepted for compatibility with ndctl; without effect
    #[arg(short, long)]
    verbose: bool,
}

/// The options of commands on namespaces.
#[derive(Args, Debug)]
pub(super) struct NamespaceFilter {
    /// Only namespaces of this region
    #[arg(short, long, value_name = "REGION")]
    region: Option<String>,
    #[command(flatten)]
    base: BaseOptions,
}

impl NamespaceFilter {
    /// Returns the namespaces that `name` selects, where `all` selects all.
    pub(super) fn names(&self, platform: &Platform, name: &str) -> Result<Vec<String>, Failure> {
        let region = self.region.as_ref().filter(|region| *region != "all");
        let region = region.map(|region| number(region, "region")).transpose()?;
        let buses = self.base.buses(platform)?;
        let on_buses: Vec<u32> =
            buses.iter().flat_map(|bus| &bus.regions).map(|region| region.number).collect();
        let names = namespace::names(platform, |one| {
            on_buses.contains(&one.number) && region.is_none_or(|region| region == one.number)
        });
        if name != "all" {
            let exists = platform.namespace(name).is_ok_and(|(region, _)| region.enabled);
            if exists && !names.iter().any(|one| one == name) {
                let why = format!("{name} is not in the selected region or on the selected bus");
                return Err(Failure::new("searching a namespace", why));
            }
            return Ok(vec![name.to_owned()]);
        }
        Ok(names)
    }
}

impl BaseOptions {
    /// Returns true if a bus is selected.
    pub(super) fn is_limited(&self) -> bool {
        self.bus.is_some()
    }

    /// Checks that a module, if it exists, is on the selected bus.
    pub(super) fn check_module(&self, platform: &Platform, index: u32) -> Result<(), Failure> {
        let buses = self.buses(platform)?;
        let exists = platform.machine.modules.len() > index as usize;
        let is_there = buses.iter().flat_map(|bus| &bus.modules).any(|module| module.number == index);
        if exists && !is_there {
            let why = format!("nmem{index} is not on the selected bus; `lode ndctl list -BD` lists them");
            return Err(Failure::new("searching a module", why));
        }
        Ok(())
    }

    /// Returns the selected buses.
    pub(super) fn buses(&self, platform: &Platform) -> Result<Vec<NdBus>, Failure> {
        let mut buses = ndctl::inventory(platform).buses;
        let Some(asked) = &self.bus else { return Ok(buses) };
        buses.retain(|bus| bus.is_called(asked));
        if buses.is_empty() {
            let why = format!("there is no bus {asked}; `lode ndctl list -B` lists them");
            return Err(Failure::new("searching a bus", why));
        }
        Ok(buses)
    }
}
