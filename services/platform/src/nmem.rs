//! Modules as the kernel's devices: nmemN is the module with index N of the machine. The CXL devices with persistent
//! memory follow the modules.

use crate::cxl;
use crate::machine::{Handle, Module, ModuleError};
use crate::namespace::error::NamespaceError;
use crate::platform::Platform;
use crate::region::Region;

/// Returns the handle of nmemN, which is a module or a CXL device.
///
/// # Errors
/// [`UnknownDevice`](ModuleError::UnknownDevice).
pub fn find(platform: &Platform, index: usize) -> Result<Handle, ModuleError> {
    let modules = &platform.machine.modules;
    let of_cxl = || {
        let device = *cxl::nvdimms(platform).get(index.checked_sub(modules.len())?)?;
        cxl::is_nvdimm(platform, device).then(|| Handle::of_cxl(device))
    };
    let found = modules.get(index).map(|module| module.handle).or_else(of_cxl);
    found.ok_or(ModuleError::UnknownDevice { index })
}

/// Returns nmemN, which is a module of firmware's table.
///
/// # Errors
/// [`UnknownDevice`](ModuleError::UnknownDevice), [`CxlDevice`](ModuleError::CxlDevice).
pub(crate) fn module(platform: &Platform, index: usize) -> Result<&Module, ModuleError> {
    match find(platform, index)?.cxl_device() {
        Some(device) => Err(ModuleError::CxlDevice { index, device }),
        None => platform.machine.modules.get(index).ok_or(ModuleError::UnknownDevice { index }),
    }
}

/// Returns the handle of nmemN if the module answers, is not locked, and does not overwrite its media.
///
/// # Errors
/// Those of [`find`], and those of a module that can't be used.
pub(crate) fn find_usable(platform: &Platform, index: usize) -> Result<Handle, ModuleError> {
    let handle = find(platform, index)?;
    platform.machine.module(handle).map_or(Ok(()), Module::check_usable)?;
    Ok(handle)
}

/// Returns N of nmemN, by its handle.
pub fn number(platform: &Platform, module: Handle) -> Option<u32> {
    let modules = &platform.machine.modules;
    let Some(device) = module.cxl_device() else {
        return platform.machine.module_index(module).map(|index| index as u32);
    };
    let position = cxl::nvdimms(platform).iter().position(|one| *one == device)?;
    Some((modules.len() + position) as u32)
}

/// Returns the numbers of the modules that `all` selects: those that answer and are not locked, and CXL devices.
pub fn all(platform: &Platform) -> Vec<usize> {
    let modules = (0..).zip(&platform.machine.modules);
    let mut numbers: Vec<usize> =
        modules.filter(|(_, module)| module.usable()).map(|(index, _)| index).collect();
    let devices = cxl::nvdimms(platform).into_iter().filter(|device| cxl::is_nvdimm(platform, *device));
    numbers.extend(devices.filter_map(|device| Some(number(platform, Handle::of_cxl(device))? as usize)));
    numbers
}

/// Returns the bytes of the label area of a module or CXL device.
pub(crate) fn label_area_len(platform: &Platform, module: Handle) -> u64 {
    match module.cxl_device() {
        Some(device) => platform.machine.cxl.devices.get(device as usize).map_or(0, |one| one.label_area),
        None => platform.machine.module(module).map_or(0, |one| one.label_area),
    }
}

/// Enables or disables the module nmemN until the next reboot. Does nothing if its state is the requested one; the
/// kernel never uses a dead or locked module.
///
/// A disabled module keeps its regions disabled. The kernel takes a region whose modules were never labelled even with
/// a disabled one.
///
/// # Errors
/// Fails if the module does not exist, if it is to be disabled and one of its regions is active, or if it is to be
/// enabled and is dead or locked, or is a CXL device whose label area can't be read.
pub fn enable(platform: &mut Platform, index: usize, enable: bool) -> Result<(), NamespaceError> {
    let module = find(platform, index)?;
    let found = platform.machine.module(module);
    if !enable {
        check_idle(platform, module)?;
    } else if let Some(found) = found {
        found.check_usable()?;
    } else if module.cxl_device().is_some_and(|device| !platform.contents.has_cxl_area(device)) {
        return Err(NamespaceError::UnreadableLabels { module });
    }
    platform.state.disabled_modules.retain(|disabled| *disabled != module);
    if !enable && platform.machine.module(module).is_none_or(Module::usable) {
        platform.state.disabled_modules.push(module);
    }
    Ok(())
}

/// Checks that the label area of the module nmemN has a valid index block.
///
/// # Errors
/// Fails if the module does not exist, is dead or locked, or if both index blocks are missing or damaged.
pub fn check_labels(platform: &Platform, index: usize) -> Result<(), NamespaceError> {
    let module = find_usable(platform, index)?;
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
