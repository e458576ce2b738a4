//! Searches devices.

use super::device::{Device, DeviceId};
use super::error::DaxError;
use super::region::{DeviceRegion, regions};
use crate::platform::Platform;

/// Returns the region of a device, and the index of the device in it.
pub(super) fn find(platform: &Platform, id: DeviceId) -> Result<(DeviceRegion, usize), DaxError> {
    for region in regions(platform) {
        if let Some(index) = region.devices.iter().position(|device| device.id == id) {
            return Ok((region, index));
        }
    }
    Err(DaxError::UnknownDevice { device: id })
}

/// Checks that a driver can be bound to the device.
pub(super) fn check_not_empty(device: &Device) -> Result<(), DaxError> {
    if device.size() == 0 { Err(DaxError::Empty { device: device.id }) } else { Ok(()) }
}
