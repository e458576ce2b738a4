//! `lode ndctl enable-region` and `disable-region`.

use super::base::BaseOptions;
use super::{count_output, number};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use clap::Args;
use lode_platform::{Purpose, region};

#[derive(Args, Debug)]
pub(super) struct RegionNames {
    /// Names of regions, or all
    #[arg(required = true, value_name = "REGION")]
    names: Vec<String>,
    #[command(flatten)]
    base: BaseOptions,
}

impl RegionNames {
    pub(super) fn set_enabled(&self, location: &MachineLocation, enable: bool) -> Result<Output, Failure> {
        let mut directory = location.open(Purpose::Change)?;
        let on_buses = self.base.regions(directory.platform())?;
        let mut numbers = Vec::new();
        for name in &self.names {
            match name.as_str() {
                "all" => numbers.extend(&on_buses),
                name => numbers.push(number(name, "region")?),
            }
        }
        let exists = |number: &u32| directory.platform().regions().iter().any(|one| one.number == *number);
        if let Some(number) = numbers.iter().find(|number| exists(number) && !on_buses.contains(number)) {
            let why = format!("region{number} is not on the selected bus; `lode ndctl list -BR` lists them");
            return Err(Failure::new("searching a region", why));
        }
        let change = directory.change(|platform| region::enable_all(platform, &numbers, enable));
        change.map_err(failed("enabling or disabling a region"))?;
        // Like ndctl, counts those that were so before.
        let done = if enable { "enabled" } else { "disabled" };
        Ok(count_output(done, numbers.len(), "region"))
    }
}
