//! Activation of staged firmware while the machine runs.

use super::activation_state::{ActivationState, SECONDS_MAX, activation, armed, bus_state};
use super::entries::{settle_all, updates};
use super::error::FirmwareError;
use super::module_firmware::ActivationResult;
use crate::machine::FirmwareActivation;
use crate::platform::Platform;

/// Activates the staged firmware of all armed modules of `bus`, and disarms them. With `limited`, takes no more time than
/// the platform has; a `dry_run` changes nothing.
///
/// # Errors
/// Fails if no module takes updates, if the platform activates firmware at a start only, if no module is armed, or if the
/// time of the platform is too short.
pub fn activate(
    platform: &mut Platform,
    bus: &str,
    limited: bool,
    dry_run: bool,
) -> Result<(), FirmwareError> {
    let bus = bus.to_owned();
    if !platform.machine.modules.iter().any(|module| updates(module).is_some()) {
        return Err(FirmwareError::NoUpdates { bus });
    }
    if activation(&platform.machine) == FirmwareActivation::Reset {
        return Err(FirmwareError::NeedsStart { bus });
    }
    if dry_run {
        return Ok(());
    }
    match bus_state(platform) {
        ActivationState::Idle => return Err(FirmwareError::NotArmed { bus }),
        ActivationState::Overflow if limited => {
            return Err(FirmwareError::Timeout { bus, modules: armed(platform), most: SECONDS_MAX });
        }
        ActivationState::Armed | ActivationState::Overflow => {}
    }
    for entry in platform.state.firmware.iter_mut().filter(|entry| entry.armed) {
        entry.armed = false;
        entry.result =
            if entry.staged.is_some() { ActivationResult::Success } else { ActivationResult::NotStaged };
        entry.running = entry.staged.take().or(entry.running);
    }
    settle_all(platform);
    Ok(())
}
