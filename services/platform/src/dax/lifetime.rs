//! Creates, destroys, enables and disables devices.

use super::device::{Device, DeviceId};
use super::error::DaxError;
use super::find::{check_not_empty, find};
use super::online::online_blocks;
use super::reconfigure::shape;
use super::region::{DeviceRegion, regions};
use super::space::gaps;
use super::stored::Driver;
use crate::platform::Platform;
use std::ops::Range;

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
    let (mut region, index) = with_new_device(platform, region)?;
    let (number, available) = (region.number, region.available());
    if available == 0 || size == Some(0) {
        let want = size.unwrap_or(region.align);
        return Err(DaxError::NoSpace { region: number, want, available });
    }
    shape(&mut region, index, Some(size.unwrap_or(available)), align)?;
    region.store(platform);
    Ok(region.devices[index].id)
}

/// Creates a device like [`create`], of these physical addresses, in the order of its pages.
///
/// # Errors
/// Those of [`create`]. Fails also if a range is empty, taken or outside of the region.
pub fn create_of(
    platform: &mut Platform,
    region: u32,
    ranges: &[Range<u64>],
    align: u64,
) -> Result<DeviceId, DaxError> {
    let (mut region, index) = with_new_device(platform, region)?;
    for range in ranges {
        if !gaps(&region).iter().any(|gap| gap.start <= range.start && range.end <= gap.end)
            || range.is_empty()
        {
            return Err(DaxError::Taken { region: region.number, start: range.start, end: range.end });
        }
        region.devices[index].ranges.push(range.clone());
    }
    shape(&mut region, index, None, Some(align))?;
    check_not_empty(&region.devices[index])?;
    region.store(platform);
    Ok(region.devices[index].id)
}

/// Returns a region of reserved memory with a further device, which has no ranges yet, and the device's index.
fn with_new_device(platform: &Platform, region: u32) -> Result<(DeviceRegion, usize), DaxError> {
    let found = regions(platform).into_iter().find(|one| one.number == region);
    let mut region = found.ok_or(DaxError::UnknownRegion { region })?;
    if region.namespace.is_some() {
        return Err(DaxError::Undivided { region: region.number });
    }
    let taken: Vec<u32> = region.devices.iter().map(|device| device.id.number).collect();
    let number = (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX);
    let id = DeviceId { region: region.number, number };
    let (ranges, align, driver) = (Vec::new(), region.align, Driver::Devdax);
    region.devices.push(Device { id, ranges, align, driver, online: None });
    let index = region.devices.len() - 1;
    Ok((region, index))
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
