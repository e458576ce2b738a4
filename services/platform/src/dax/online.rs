//! Takes the memory of devices online and offline.

use super::device::{Device, DeviceId};
use super::error::DaxError;
use super::find::find;
use super::memory::{block_size, whole_blocks};
use super::region::DeviceRegion;
use super::stored::MemoryZone;
use crate::platform::Platform;

/// Takes the memory of a device online, in this zone. Returns the number of memory blocks that were offline before.
///
/// # Errors
/// Fails if the device does not exist, or is not in mode system-ram.
pub fn online(platform: &mut Platform, id: DeviceId, zone: MemoryZone) -> Result<u64, DaxError> {
    let (mut region, index) = find_memory(platform, id)?;
    let device = &mut region.devices[index];
    if device.online.is_some() {
        return Ok(0);
    }
    device.online = Some(zone);
    let blocks = online_blocks(platform, device);
    region.store(platform);
    Ok(blocks)
}

/// Takes the memory of a device offline. Returns the number of memory blocks that were online before. Memory of an
/// emulated machine is empty, so it never stays.
///
/// # Errors
/// Fails if the device does not exist, or is not in mode system-ram.
pub fn offline(platform: &mut Platform, id: DeviceId) -> Result<u64, DaxError> {
    let (mut region, index) = find_memory(platform, id)?;
    let device = &mut region.devices[index];
    let blocks = online_blocks(platform, device);
    device.online = None;
    region.store(platform);
    Ok(blocks)
}

/// Returns the number of a device's memory blocks that are online.
pub(super) fn online_blocks(platform: &Platform, device: &Device) -> u64 {
    device.online.map_or(0, |_| whole_blocks(&device.ranges, block_size(&platform.machine)))
}

fn find_memory(platform: &Platform, id: DeviceId) -> Result<(DeviceRegion, usize), DaxError> {
    let (region, index) = find(platform, id)?;
    if region.devices[index].is_memory() {
        Ok((region, index))
    } else {
        Err(DaxError::NotMemory { device: id })
    }
}
