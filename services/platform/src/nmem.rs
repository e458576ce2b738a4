//! Modules as the kernel's devices: nmemN is the module with index N of the machine.

use crate::machine::{Handle, ModuleError};
use crate::namespace::error::NamespaceError;
use crate::platform::Platform;
use crate::region::Region;

/// Enables or disables the module nmemN until the next reboot. Does nothing if its state is the requested one; the
/// kernel never uses a dead or locked module.
///
/// A disabled module keeps its regions disabled. The kernel takes a region whose modules were never labelled even with
/// a disabled one.
///
/// # Errors
/// Fails if the module does not exist, if it is to be disabled and one of its regions is active, or if it is to be
/// enabled and is dead or locked.
pub fn enable(platform: &mut Platform, index: usize, enable: bool) -> Result<(), NamespaceError> {
    let found = platform.machine.modules.get(index).ok_or(ModuleError::UnknownDevice { index })?;
    let module = found.handle;
    if enable {
        found.check_usable()?;
    } else {
        check_idle(platform, module)?;
    }
    platform.state.disabled_modules.retain(|disabled| *disabled != module);
    if !enable && platform.machine.modules[index].usable() {
        platform.state.disabled_modules.push(module);
    }
    Ok(())
}

/// Checks that the label area of the module nmemN has a valid index block.
///
/// # Errors
/// Fails if the module does not exist, is dead or locked, or if both index blocks are missing or damaged.
pub fn check_labels(platform: &Platform, index: usize) -> Result<(), NamespaceError> {
    let found = platform.machine.modules.get(index).ok_or(ModuleError::UnknownDevice { index })?;
    found.check_usable()?;
    let module = found.handle;
    platform.contents.area(module).map(drop).map_err(|error| NamespaceError::Labels { module, error })
}

/// Checks that no region with the module is active.
///
/// # Errors
/// [`RegionActive`](NamespaceError::RegionActive).
pub(crate) fn check_idle(platform: &Platform, module: Handle) -> Result<(), NamespaceError> {
    let regions = platform.regions();
    let active = |region: &&Region| region.enabled && region.has(module);
    match regions.iter().find(active) {
        Some(region) => Err(NamespaceError::RegionActive { region: region.number, module }),
        None => Ok(()),
    }
}
