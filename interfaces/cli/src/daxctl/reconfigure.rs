//! `lode daxctl reconfigure-device`.

use super::memory::zone;
use super::selection::Devices;
use super::tried::Tried;
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::MachineLocation;
use crate::size;
use clap::{Args, ValueEnum};
use lode_platform::Purpose;
use lode_platform::dax::{self, Reconfigured};

/// The value of `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeOption {
    /// Applications map the device
    Devdax,
    /// The kernel uses the device as memory
    SystemRam,
}

#[derive(Args, Debug)]
pub(super) struct Reconfigure {
    /// Mode of the devices
    #[arg(short, long, value_name = "MODE")]
    mode: Option<ModeOption>,
    /// Size in bytes, or with K, M, G or T, of a disabled device in memory that firmware reserves
    #[arg(short, long, value_parser = size::parse, conflicts_with = "mode")]
    size: Option<u64>,
    /// Alignment of mappings of such a device: 4K, 2M or 1G
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "mode")]
    align: Option<u64>,
    /// Leave the memory of mode system-ram offline
    #[arg(short = 'N', long)]
    no_online: bool,
    /// Take the memory online for any pages, and not only for those of applications
    #[arg(long)]
    no_movable: bool,
    /// Take memory offline before the mode changes to devdax
    #[arg(short, long)]
    force: bool,
    /// Refused: emulated machines read no configuration of daxctl
    #[arg(short = 'C', long)]
    check_config: bool,
    #[command(flatten)]
    devices: Devices,
}

impl Reconfigure {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "reconfiguring a device";
        if self.check_config {
            let why = "/etc/daxctl.conf.d is the configuration of this machine, and not of the emulated one; give the \
                       mode with -m";
            return Err(Failure::usage_error(why));
        }
        let to = match self.mode {
            Some(ModeOption::Devdax) if self.no_online => {
                let why = "--no-online is incompatible with --mode=devdax; leave it out";
                return Err(Failure::usage_error(why));
            }
            Some(ModeOption::Devdax) => Some(Reconfigured::Devdax { force: self.force }),
            Some(ModeOption::SystemRam) => {
                Some(Reconfigured::SystemRam((!self.no_online).then_some(zone(self.no_movable))))
            }
            None if self.size.is_none() && self.align.is_none() => {
                return Err(Failure::usage_error("a mode, a size or an alignment is required: -m, -s or -a"));
            }
            None => None,
        };
        let mut directory = location.open(Purpose::Change)?;
        let ids = self.devices.ids(what, directory.platform())?;
        let tried = Tried::each(what, &mut directory, &ids, |platform, id, tried| {
            match to {
                Some(to) => {
                    let already = dax::reconfigure(platform, id, to)?;
                    already.into_iter().for_each(|one| tried.note(one.describe(id)));
                }
                None => dax::reshape(platform, id, self.size, self.align)?,
            }
            tried.done.push(id);
            Ok(())
        })?;
        match to {
            Some(_) => tried.listed(what, &directory, self.devices.base.human),
            None => Ok(tried.counted(what, "reconfigured")?.with("output", Vec::<String>::new())),
        }
    }
}
