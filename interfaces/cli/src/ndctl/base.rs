//! The options that most commands of ndctl have.

use super::number;
use crate::failure::Failure;
use clap::Args;
use lode_platform::namespace;
use lode_platform::ndctl::{self, NdBus};
use lode_platform::{Platform, nmem};

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
    /// Returns the namespaces that `name` selects, where `all` selects all of enabled regions.
    pub(super) fn names(&self, platform: &Platform, name: &str) -> Result<Vec<String>, Failure> {
        let regions = self.regions(platform)?;
        if name == "all" {
            return Ok(namespace::names(platform, |region| regions.contains(&region.number)));
        }
        check_selected(platform, &regions, name)?;
        Ok(vec![name.to_owned()])
    }

    /// Returns the namespaces that `names` select, where `all` selects all that have labels.
    pub(super) fn labelled(&self, platform: &Platform, names: &[String]) -> Result<Vec<String>, Failure> {
        let regions = self.regions(platform)?;
        let mut selected = Vec::new();
        for name in names {
            if name == "all" {
                selected.extend(
                    regions.iter().flat_map(|region| namespace::labelled_names(platform, Some(*region))),
                );
            } else {
                check_selected(platform, &regions, name)?;
                selected.push(name.clone());
            }
        }
        Ok(selected)
    }

    /// Returns the numbers of the selected regions.
    fn regions(&self, platform: &Platform) -> Result<Vec<u32>, Failure> {
        let region = self.region.as_ref().filter(|region| *region != "all");
        let region = region.map(|region| number(region, "region")).transpose()?;
        let mut regions = self.base.regions(platform)?;
        regions.retain(|one| region.is_none_or(|region| region == *one));
        Ok(regions)
    }
}

/// Checks that a namespace, if it exists, is in one of these regions.
fn check_selected(platform: &Platform, regions: &[u32], name: &str) -> Result<(), Failure> {
    match platform.namespace(name) {
        Ok((region, _)) if !regions.contains(&region.number) => {
            let why = format!("{name} is not in the selected region or on the selected bus");
            Err(Failure::new("searching a namespace", why))
        }
        _ => Ok(()),
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
        let exists = nmem::find(platform, index as usize).is_ok();
        let is_there = buses.iter().flat_map(|bus| &bus.modules).any(|module| module.number == index);
        if exists && !is_there {
            let why = format!("nmem{index} is not on the selected bus; `lode ndctl list -BD` lists them");
            return Err(Failure::new("searching a module", why));
        }
        Ok(())
    }

    /// Returns the numbers of the regions on the selected buses, in their order.
    pub(super) fn regions(&self, platform: &Platform) -> Result<Vec<u32>, Failure> {
        let buses = self.buses(platform)?;
        let mut regions: Vec<u32> =
            buses.iter().flat_map(|bus| &bus.regions).map(|region| region.number).collect();
        regions.sort_unstable();
        Ok(regions)
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
