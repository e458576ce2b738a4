//! The options that most commands of ndctl have.

use crate::failure::Failure;
use clap::Args;
use lode_platform::Platform;
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

impl BaseOptions {
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
