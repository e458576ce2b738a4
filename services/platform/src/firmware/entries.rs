//! The entries of modules in the state, and the firmware that they make modules run.

use super::module_firmware::{ActivationResult, ModuleFirmware};
use super::version::FirmwareVersion;
use crate::machine::{Health, Module, Security};
use crate::platform::Platform;
use crate::state;

/// Returns the entry of a module.
pub(crate) fn entry(platform: &Platform, module: &Module) -> ModuleFirmware {
    let found = platform.state.firmware.iter().find(|entry| entry.module == module.handle);
    found.copied().unwrap_or(ModuleFirmware {
        module: module.handle,
        running: None,
        staged: None,
        armed: false,
        result: ActivationResult::None,
    })
}

/// Stores the entry of a module.
pub(super) fn settle(platform: &mut Platform, entry: ModuleFirmware) {
    state::put(&mut platform.state.firmware, entry, |one| one.module);
}

/// Sets the firmware of each module to that of the state.
pub(crate) fn settle_all(platform: &mut Platform) {
    for entry in &platform.state.firmware {
        if let (Some(running), Some(index)) = (entry.running, platform.machine.module_index(entry.module)) {
            platform.machine.modules[index].firmware = Some(running.to_string());
        }
    }
}

/// Returns the version that a module runs if it takes updates.
pub(crate) fn updates(module: &Module) -> Option<FirmwareVersion> {
    let answers = module.health != Health::NonFunctional && module.security != Security::Unsupported;
    module.firmware.as_deref().filter(|_| answers)?.parse().ok()
}
