//! `lode daxctl online-memory` and `offline-memory`.

use super::selection::Devices;
use super::tried::Tried;
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::MachineLocation;
use clap::Args;
use lode_platform::Purpose;
use lode_platform::dax::{self, MemoryZone};

#[derive(Args, Debug)]
pub(super) struct Online {
    /// Take the memory online for any pages, and not only for those of applications
    #[arg(short = 'N', long)]
    no_movable: bool,
    #[command(flatten)]
    devices: Devices,
}

#[derive(Args, Debug)]
pub(super) struct Offline {
    #[command(flatten)]
    devices: Devices,
}

impl Online {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "taking memory online";
        let mut directory = location.open(Purpose::Change)?;
        let ids = self.devices.ids(what, directory.platform())?;
        let tried = Tried::each(what, &mut directory, &ids, |platform, id, tried| {
            match dax::online(platform, id, zone(self.no_movable))? {
                0 => tried.note(format!("{id}: all memory sections already online")),
                blocks => {
                    tried.note(format!("{id}: {} onlined", sections(blocks)));
                    tried.done.push(id);
                }
            }
            Ok(())
        })?;
        counted(tried, what, "onlined memory for")
    }
}

impl Offline {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "taking memory offline";
        let mut directory = location.open(Purpose::Change)?;
        let ids = self.devices.ids(what, directory.platform())?;
        let tried = Tried::each(what, &mut directory, &ids, |platform, id, tried| {
            match dax::offline(platform, id)? {
                0 => tried.note(format!("{id}: all memory sections already offline")),
                blocks => {
                    tried.note(format!("{id}: {} offlined", sections(blocks)));
                    tried.done.push(id);
                }
            }
            Ok(())
        })?;
        counted(tried, what, "offlined memory for")
    }
}

/// Returns the output that counts the devices. Like daxctl, a command that found its work done already exits with 1.
fn counted(tried: Tried, what: &'static str, done: &str) -> Result<Output, Failure> {
    let code = u8::from(tried.done.is_empty());
    Ok(tried.counted(what, done)?.with_exit_code(code))
}

/// Returns the zone of memory that is taken online.
pub(super) fn zone(no_movable: bool) -> MemoryZone {
    if no_movable { MemoryZone::Normal } else { MemoryZone::Movable }
}

/// Counts memory blocks, which daxctl calls sections.
fn sections(blocks: u64) -> String {
    format!("{blocks} memory section{}", if blocks == 1 { "" } else { "s" })
}
