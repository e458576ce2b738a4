//! `lode ndctl enable-region` and `disable-region`.

use super::{counted, number};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::platform::{Place, failed};
use clap::Args;
use lode_platform::namespace::NamespaceError;
use lode_platform::{Purpose, region};

#[derive(Args, Debug)]
pub(super) struct Regions {
    /// Names of regions, or all
    #[arg(required = true, value_name = "REGION")]
    names: Vec<String>,
}

impl Regions {
    pub(super) fn switch(&self, place: &Place, enable: bool) -> Result<Answer, Failure> {
        let mut directory = place.open(Purpose::Change)?;
        let mut numbers = Vec::new();
        for name in &self.names {
            match name.as_str() {
                "all" => numbers.extend(directory.platform().regions().iter().map(|region| region.number)),
                name => numbers.push(number(name, "region")?),
            }
        }
        let change = directory.change(|platform| {
            let mut switched = 0;
            for number in &numbers {
                switched += usize::from(region::enable(platform, *number, enable)?);
            }
            Ok::<_, NamespaceError>(switched)
        });
        let done = if enable { "enabled" } else { "disabled" };
        Ok(counted(done, change.map_err(failed("switching a region"))?, "region"))
    }
}
