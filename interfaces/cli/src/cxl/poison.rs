//! `lode cxl inject-media-poison` and `clear-media-poison`.

use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use clap::Args;
use lode_platform::cxl::{self, CxlError};
use lode_platform::{Platform, PlatformError, Purpose};

#[derive(Args, Debug)]
pub(super) struct Poison {
    /// The device, as mem0, 0 or its PCI address
    #[arg(value_name = "MEMDEV")]
    memdev: String,
    /// Address on the device (DPA), as 4096 or 0x1000: a multiple of 64
    #[arg(short, long, value_name = "ADDRESS")]
    address: String,
    /// Accepted for compatibility with cxl; without effect
    #[arg(long)]
    debug: bool,
}

impl Poison {
    pub(super) fn inject(&self, location: &MachineLocation) -> Result<Output, Failure> {
        self.run(location, ("injecting poison", "injected"), cxl::inject_poison)
    }

    pub(super) fn clear(&self, location: &MachineLocation) -> Result<Output, Failure> {
        self.run(location, ("clearing poison", "cleared"), cxl::clear_poison)
    }

    fn run(
        &self,
        location: &MachineLocation,
        (what, done): (&'static str, &str),
        act: impl Fn(&mut Platform, u32, u64) -> Result<(), CxlError>,
    ) -> Result<Output, Failure> {
        let Poison { memdev, address, .. } = self;
        let number = cxl::number_alone(address).ok_or_else(|| {
            Failure::usage_error(format!("invalid address: {address}; it is a number below 2^64, as 0x1000"))
        })?;
        let mut directory = location.open(Purpose::Change)?;
        // Like cxl, this takes the first of several devices.
        let found = cxl::inventory(directory.platform()).memdevs_called(memdev, false).first().copied();
        let device = found.ok_or_else(|| {
            Failure::new(what, format!("Memdev \"{memdev}\" not found; `lode cxl list -Mi` lists them"))
        })?;
        let as_typed = |mut error| {
            if let CxlError::Poison { address: named, .. } = &mut error {
                named.clone_from(address);
            }
            error
        };
        let change = directory
            .change::<_, PlatformError>(|platform| Ok(act(platform, device, number).map_err(as_typed)?));
        change.map_err(failed(what))?;
        Ok(Output::text(format!("poison {done} at mem{device}:{address}\n")).with("count", 1))
    }
}
