//! Creates, destroys, enables and disables devices.

use super::device::{Device, DeviceId};
use super::error::DaxError;
use super::find::{check_not_empty, find};
use super::online::online_blocks;
use super::reconfigure::shape;
use super::region::regions;
use super::stored::Driver;
use crate::platform::Platform;

/// The result of destroying a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destroyed {
    /// The device is gone.
    Removed,
    /// The device is empty and disabled: the kernel keeps the first device of each region.
    Emptied,
}

/// Creates a device in mode devdax in a region of reserved memory, until the next start. It gets the lowest free
/// number.
///
/// # Errors
/// Fails if the region does not exist, is a namespace or has not enough space, or if the values are not multiples of
/// the units.
pub fn create(
    platform: &mut Platform,
    region: u32,
    size: Option<u64>,
    align: Option<u64>,
) -> Result<DeviceId, DaxError> {
    let found = regions(platform).into_iter().find(|one| one.number == region);
    let mut region = found.ok_or(DaxError::UnknownRegion { region })?;
    let (number, available) = (region.number, region.available());
    if region.namespace.is_some() {
        return Err(DaxError::Undivided { region: number });
    }
    if available == 0 || size == Some(0) {
        let want = size.unwrap_or(region.align);
        return Err(DaxError::NoSpace { region: number, want, available });
    }
    let taken: Vec<u32> = region.devices.iter().map(|device| device.id.number).collect();
    let free = (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX);
    let id = DeviceId { region: number, number: free };
    let align_default = region.align;
    let (index, ranges) = (region.devices.len(), Vec::new());
    region.devices.push(Device { id, ranges, align: align_default, driver: Driver::Devdax, online: None });
    shape(&mut region, index, Some(size.unwrap_or(available)), align)?;
    region.store(platform);
    Ok(id)
}

/// Destroys a device of reserved memory. With `force`, it is disabled first.
///
/// # Errors
/// Fails if the device does not exist or is a namespace, if it is enabled and `force` is not set, or if its memory is
/// online.
pub fn destroy(platform: &mut Platform, id: DeviceId, force: bool) -> Result<Destroyed, DaxError> {
    let (mut region, index) = find(platform, id)?;
    let device = &mut region.devices[index];
    if device.driver != Driver::None && !force {
        return Err(DaxError::Active { device: id });
    }
    let blocks = online_blocks(platform, device);
    if blocks > 0 {
        return Err(DaxError::Online { device: id, blocks });
    }
    if region.namespace.is_some() {
        return Err(DaxError::OfNamespace { device: id });
    }
    let result = if id.number == 0 {
        device.ranges.clear();
        device.driver = Driver::None;
        Destroyed::Emptied
    } else {
        region.devices.remove(index);
        Destroyed::Removed
    };
    region.store(platform);
    Ok(result)
}

/// Enables a device in mode devdax, or disables it, until the next start.
///
/// # Errors
/// Fails if the device does not exist or is in mode system-ram, or if it is to be enabled and has no size.
pub fn enable(platform: &mut Platform, id: DeviceId, enable: bool) -> Result<(), DaxError> {
    let (mut region, index) = find(platform, id)?;
    let device = &mut region.devices[index];
    if device.is_memory() {
        return Err(DaxError::IsMemory { device: id });
    }
    if enable {
        check_not_empty(device)?;
    }
    device.driver = if enable { Driver::Devdax } else { Driver::None };
    region.store(platform);
    Ok(())
}
