//! `ipmctl show` of an emulated machine.

use super::display::DisplayOptions;
use super::error::ShowError;
use super::error_log::{self, ErrorQuery};
use super::{dimm, firmware, goal, pcd, preferences, region, resources, sensor, socket, system, topology};
use crate::goal::Targets;
use crate::platform::Platform;

/// Subject of `ipmctl show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `-topology`: the hardware.
    Topology,
    /// `-dimm`: the persistent memory modules.
    Dimm,
    /// `-dimm -pcd Config`: platform configuration data (PCD) on the modules.
    Pcd,
    /// `-memoryresources`: use of the total capacity.
    MemoryResources,
    /// `-region`: mapped persistent memory.
    Region,
    /// `-goal`: pending goals.
    Goal,
    /// `-sensor`: sensor values of these types, or of all.
    Sensor(Vec<String>),
    /// `-error`: the error logs of the modules.
    Error(ErrorQuery),
    /// `-system -capabilities`: capabilities of platform and firmware.
    Capabilities,
    /// `-firmware`: running and staged firmware.
    Firmware,
    /// `-socket`: mapped memory of each socket.
    Socket,
    /// `-preferences`: preferences of the tool.
    Preferences,
}

/// Returns ipmctl's output for the subject.
///
/// # Errors
/// Fails if modules, sockets or values do not exist.
pub fn show(
    platform: &Platform,
    subject: &Subject,
    targets: &Targets,
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    let display = &display.with_unit(platform);
    match subject {
        Subject::Topology => topology::show(platform, targets, display),
        Subject::Dimm => dimm::show(platform, targets, display),
        Subject::Pcd => pcd::show(platform, targets, display),
        Subject::MemoryResources => resources::show(platform, display),
        Subject::Region => region::show(platform, targets, display),
        Subject::Goal => goal::show(platform, targets, display),
        Subject::Sensor(kinds) => sensor::show(platform, kinds, targets, display),
        Subject::Error(query) => error_log::show(platform, query, targets, display),
        Subject::Capabilities => system::show(platform, display),
        Subject::Firmware => firmware::show(platform, targets, display),
        Subject::Socket => socket::show(platform, targets, display),
        Subject::Preferences => preferences::show(platform, display),
    }
}
