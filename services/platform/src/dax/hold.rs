//! Namespaces whose devices the kernel uses as memory.

use super::device::DeviceId;
use crate::namespace::NamespaceError;
use crate::state::State;

/// Takes the devices of a namespace away, or of all namespaces of a region if `number` is `None`. The devices of a
/// later namespace are in the kernel's mode again.
///
/// # Errors
/// [`MemoryOnline`](NamespaceError::MemoryOnline) if the kernel uses memory of such a device.
pub(crate) fn release(state: &mut State, region: u32, number: Option<u32>) -> Result<(), NamespaceError> {
    let is_released = |id: DeviceId| id.region == region && number.is_none_or(|number| id.number == number);
    let online = state.dax_devices.iter().find(|one| one.online.is_some() && is_released(DeviceId::of(one)));
    if let Some(online) = online {
        return Err(NamespaceError::MemoryOnline { device: DeviceId::of(online) });
    }
    state.dax_devices.retain(|one| !is_released(DeviceId::of(one)));
    Ok(())
}
