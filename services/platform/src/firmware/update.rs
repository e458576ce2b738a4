//! Updates of firmware: staging, arming and disarming, and the start of the machine.

use super::activation_state::{ActivationState, SECONDS_MAX, activation, armed, bus_state};
use super::entries::{entry, settle, settle_all, updates};
use super::error::FirmwareError;
use super::image::FirmwareImage;
use super::module_firmware::{ActivationResult, ModuleFirmware};
use super::version::FirmwareVersion;
use crate::machine::{FirmwareActivation, Health, Module};
use crate::nmem;
use crate::platform::Platform;

/// Stages an image on the module nmemN. It runs after an activation or a start.
///
/// # Errors
/// Fails if the module does not exist, is dead or takes no updates, if the image is for another generation, or without
/// `force`, if an image is staged already.
pub fn stage(
    platform: &mut Platform,
    index: usize,
    image: &FirmwareImage,
    force: bool,
) -> Result<(), FirmwareError> {
    let (module, running) = updatable(platform, index)?;
    if image.version.product() != running.product() {
        return Err(FirmwareError::Product { index, image: image.version, running });
    }
    let old = entry(platform, module);
    match old.staged {
        Some(staged) if !force => return Err(FirmwareError::Staged { index, staged }),
        _ => {}
    }
    settle(platform, ModuleFirmware { staged: Some(image.version), ..old });
    Ok(())
}

/// Arms the module nmemN: the next activation takes it.
///
/// # Errors
/// Fails if the module does not exist, is dead or takes no updates, if its platform activates firmware at a start only,
/// or without `force`, if the armed modules would take more time than the platform has.
pub fn arm(platform: &mut Platform, index: usize, force: bool) -> Result<(), FirmwareError> {
    let (module, _) = updatable(platform, index)?;
    if activation(&platform.machine) == FirmwareActivation::Reset {
        return Err(FirmwareError::NoActivation { index });
    }
    let old = entry(platform, module);
    let mut after = platform.clone();
    settle(&mut after, ModuleFirmware { armed: true, ..old });
    if !force && bus_state(&after) == ActivationState::Overflow {
        return Err(FirmwareError::Overflow { index, modules: armed(&after), most: SECONDS_MAX });
    }
    *platform = after;
    Ok(())
}

/// Disarms the module nmemN.
///
/// # Errors
/// Fails if the module does not exist, is dead or takes no updates, or if its platform activates firmware at a start
/// only.
pub fn disarm(platform: &mut Platform, index: usize) -> Result<(), FirmwareError> {
    let (module, _) = updatable(platform, index)?;
    if activation(&platform.machine) == FirmwareActivation::Reset {
        return Err(FirmwareError::NoActivation { index });
    }
    let old = entry(platform, module);
    settle(platform, ModuleFirmware { armed: false, ..old });
    Ok(())
}

/// Changes firmware as a start of the machine does: what is staged runs.
pub(crate) fn start(platform: &mut Platform) {
    for entry in &mut platform.state.firmware {
        entry.running = entry.staged.take().or(entry.running);
        (entry.armed, entry.result) = (false, ActivationResult::None);
    }
    settle_all(platform);
}

/// Returns a module that takes updates, and the version that it runs.
fn updatable(platform: &Platform, index: usize) -> Result<(&Module, FirmwareVersion), FirmwareError> {
    let module = nmem::module(platform, index)?;
    if module.health == Health::NonFunctional {
        return Err(FirmwareError::Dead { index });
    }
    let running = updates(module).ok_or(FirmwareError::Unsupported { index })?;
    Ok((module, running))
}
