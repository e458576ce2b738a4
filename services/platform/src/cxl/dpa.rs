//! Memory of devices (DPA), which their decoders hold.
//!
//! A device has its volatile memory first, and its persistent memory after it. Decoders take memory in their order, each
//! at a higher address than the one before, and give it back in the reverse one. So volatile memory that a decoder skips
//! to take persistent memory is lost until that is freed.

use super::error::CxlError;
use super::stored::{Allocation, CxlKind, CxlState};
use super::topology::Topology;
use super::window::WINDOW_ALIGN;
use super::{CxlErrno, filter};
use crate::machine::CxlHardware;
use crate::platform::Platform;
use std::ops::Range;

/// Request to reserve or free memory of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DpaRequest {
    /// Kind of memory [default: persistent to reserve, any to free].
    pub kind: Option<CxlKind>,
    /// The decoder, as `decoder2.0` or `0` [default: the next one in the order].
    pub decoder: Option<String>,
    /// Tries what is known to fail.
    pub force: bool,
}

/// Returns the bytes of volatile memory of a device.
pub(crate) fn volatile(platform: &Platform, device: u32) -> u64 {
    volatile_of(&platform.state.cxl, &platform.machine.cxl, device)
}

fn volatile_of(state: &CxlState, cxl: &CxlHardware, device: u32) -> u64 {
    let partition = state.partitions.iter().find(|one| one.device == device);
    let hardware = cxl.devices.get(device as usize);
    partition.map(|one| one.volatile).or(hardware.map(|one| one.volatile)).unwrap_or(0)
}

/// Returns the bytes of a device.
pub(crate) fn total(platform: &Platform, device: u32) -> u64 {
    total_of(&platform.machine.cxl, device)
}

pub(super) fn total_of(cxl: &CxlHardware, device: u32) -> u64 {
    cxl.devices.get(device as usize).map_or(0, |one| one.volatile + one.persistent)
}

/// Returns the bytes of a device's memory of this kind.
pub(crate) fn capacity(platform: &Platform, device: u32, kind: CxlKind) -> u64 {
    let range = range(&platform.state.cxl, &platform.machine.cxl, device, kind);
    range.end - range.start
}

/// Returns the addresses of a device's memory of this kind.
pub(crate) fn range(state: &CxlState, cxl: &CxlHardware, device: u32, kind: CxlKind) -> Range<u64> {
    let (volatile, total) = (volatile_of(state, cxl, device), total_of(cxl, device));
    match kind {
        CxlKind::Ram => 0..volatile.min(total),
        CxlKind::Pmem => volatile.min(total)..total,
    }
}

/// Returns the place of `len` further bytes of a device; `None` if they are not free.
pub(crate) fn place(platform: &Platform, device: u32, kind: CxlKind, len: u64) -> Option<u64> {
    let range = range(&platform.state.cxl, &platform.machine.cxl, device, kind);
    let held = platform.state.cxl.allocations_of(device).map(|one| one.off.saturating_add(one.len)).max();
    let start = held.unwrap_or(0).max(range.start);
    (start.checked_add(len)? <= range.end).then_some(start)
}

/// Frees the memory that the decoder with this index of a device holds, if no region has it.
///
/// # Errors
/// Fails if a region has the memory, or if a later decoder holds memory, too.
pub(crate) fn free_from(platform: &mut Platform, device: u32, index: usize) -> Result<(), ()> {
    let held: Vec<&Allocation> = platform.state.cxl.allocations_of(device).collect();
    match held.get(index) {
        None => Ok(()),
        Some(one) if one.region.is_some() || index + 1 < held.len() => Err(()),
        Some(_) => {
            let last = platform.state.cxl.allocations.iter().rposition(|one| one.device == device);
            last.map(|at| platform.state.cxl.allocations.remove(at));
            Ok(())
        }
    }
}

/// Reserves `size` bytes of a device for a decoder, until the next start; `None` is all that are free. Returns the index of
/// the decoder.
///
/// # Errors
/// Fails if the device is disabled, has not as much free memory or no free decoder, or if the named decoder is not the
/// next one.
pub fn reserve(
    platform: &mut Platform,
    device: u32,
    size: Option<u64>,
    request: &DpaRequest,
) -> Result<usize, CxlError> {
    let endpoint = endpoint(platform, device)?;
    let kind = request.kind.unwrap_or(CxlKind::Pmem);
    let held: Vec<Allocation> = platform.state.cxl.allocations_of(device).cloned().collect();
    let of_kind = held.iter().filter(|one| one.kind == kind).map(|one| one.len).sum::<u64>();
    let available = capacity(platform, device, kind).saturating_sub(of_kind);
    let size = match size {
        None if available == 0 => return Err(CxlError::NoCapacity { device }),
        None => available,
        Some(size) if size > available && !request.force => {
            return Err(CxlError::Exceeds { device, size, available });
        }
        Some(size) => size,
    };
    let decoders = platform.machine.cxl.devices[device as usize].decoders as usize;
    let next = (held.len() < decoders).then_some(held.len());
    let target = target(endpoint, device, decoders, next, request)?;
    let refused = |errno, why| {
        let object = format!("mem{device}: decoder{endpoint}.{target}");
        CxlError::Refused { object, step: "failed to set dpa allocation", errno, why }
    };
    if capacity(platform, device, kind) == 0 {
        let why = "the device has no memory of the kind";
        let object = format!("mem{device}: decoder{endpoint}.{target}");
        let step = if kind == CxlKind::Ram { "failed to set ram mode" } else { "failed to set pmem mode" };
        return Err(CxlError::Refused { object, step, errno: CxlErrno::NoDevice, why });
    }
    if !size.is_multiple_of(WINDOW_ALIGN) {
        return Err(refused(CxlErrno::Invalid, "a decoder holds a multiple of 256MiB"));
    }
    // The last decoder gives back the memory that it holds, and takes other memory.
    if target > held.len() || free_from(platform, device, target).is_err() {
        return Err(refused(CxlErrno::Busy, "decoders take memory in their order"));
    }
    if size > 0 {
        let off = place(platform, device, kind, size);
        let why = "the device has too little free memory of the kind, after what its decoders hold";
        let off = off.ok_or_else(|| refused(CxlErrno::NoSpace, why))?;
        platform.state.cxl.allocations.push(Allocation { device, kind, off, len: size, region: None });
    }
    Ok(target)
}

/// Frees the memory that the last decoder of a device holds, of those that hold memory of the requested kind. Returns the
/// index of the decoder.
///
/// # Errors
/// Fails if the device is disabled, if a region has the memory or no decoder holds such, if the named decoder is not the
/// last one, or if a later one holds memory of the other kind.
pub fn free(platform: &mut Platform, device: u32, request: &DpaRequest) -> Result<usize, CxlError> {
    let endpoint = endpoint(platform, device)?;
    let held: Vec<&Allocation> = platform.state.cxl.allocations_of(device).collect();
    let last = held.iter().rposition(|one| request.kind.is_none_or(|kind| one.kind == kind));
    let last = last.filter(|index| held[*index].region.is_none());
    let decoders = platform.machine.cxl.devices[device as usize].decoders as usize;
    let target = target(endpoint, device, decoders, last, request)?;
    free_from(platform, device, target).map_err(|()| CxlError::Refused {
        object: format!("mem{device}: decoder{endpoint}.{target}"),
        step: "failed to set dpa allocation",
        errno: CxlErrno::Busy,
        why: "decoders free memory in the reverse of their order",
    })?;
    Ok(target)
}

/// Checks that a device exists.
pub(crate) fn check_exists(platform: &Platform, device: u32) -> Result<(), CxlError> {
    match platform.machine.cxl.devices.get(device as usize) {
        Some(_) => Ok(()),
        None => Err(CxlError::UnknownDevice { device }),
    }
}

/// Returns the number of the endpoint of an enabled device.
pub(crate) fn endpoint(platform: &Platform, device: u32) -> Result<usize, CxlError> {
    let topology = Topology::of(&platform.machine.cxl);
    let endpoint = topology.endpoints.get(device as usize).ok_or(CxlError::UnknownDevice { device })?;
    match platform.state.cxl.disabled_devices.contains(&device) {
        true => Err(CxlError::Disabled { device }),
        false => Ok(*endpoint),
    }
}

/// Returns the decoder of a request, whose default is `next`.
fn target(
    endpoint: usize,
    device: u32,
    decoders: usize,
    next: Option<usize>,
    request: &DpaRequest,
) -> Result<usize, CxlError> {
    let Some(name) = &request.decoder else {
        return next.ok_or(CxlError::NoSuitableDecoder { device });
    };
    let is_called = |index: &usize| {
        let alone = super::number_alone(name).is_some_and(|number| number == *index as u64);
        alone || filter::decoder(name, endpoint as u32, *index as u32)
    };
    let found = (0..decoders).find(is_called);
    let found = found.ok_or_else(|| CxlError::NoSuchDecoder { device, decoder: name.clone() })?;
    if Some(found) != next && !request.force {
        let decoder = format!("decoder{endpoint}.{found}");
        return Err(CxlError::OutOfSequence { device, decoder });
    }
    Ok(found)
}
