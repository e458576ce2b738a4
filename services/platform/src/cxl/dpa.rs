//! Memory of devices (DPA), which their decoders hold.
//!
//! A device has its volatile memory first, and its persistent memory after it. Decoders take memory in their order, each
//! at a higher address than the one before, and give it back in the reverse one. So volatile memory that a decoder skips
//! to take persistent memory is lost until that is freed.

use super::error::CxlError;
use super::stored::{Allocation, CxlKind};
use super::topology::Topology;
use super::window::WINDOW_ALIGN;
use super::{CxlErrno, filter};
use crate::platform::Platform;
use std::ops::Range;

/// Request to reserve or free memory of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DpaRequest {
    /// Kind of memory [default: persistent].
    pub kind: Option<CxlKind>,
    /// Bytes [default: all that are free to reserve, and none to keep].
    pub size: Option<u64>,
    /// The decoder, as `decoder2.0` or `0` [default: the next one in the order].
    pub decoder: Option<String>,
    /// Tries what is known to fail.
    pub force: bool,
}

/// Returns the bytes of volatile memory of a device.
pub(crate) fn volatile(platform: &Platform, device: u32) -> u64 {
    let partition = platform.state.cxl.partitions.iter().find(|one| one.device == device);
    let hardware = platform.machine.cxl.devices.get(device as usize);
    partition.map(|one| one.volatile).or(hardware.map(|one| one.volatile)).unwrap_or(0)
}

/// Returns the bytes of a device.
pub(crate) fn total(platform: &Platform, device: u32) -> u64 {
    platform.machine.cxl.devices.get(device as usize).map_or(0, |one| one.volatile + one.persistent)
}

/// Returns the bytes of a device's memory of this kind.
pub(crate) fn capacity(platform: &Platform, device: u32, kind: CxlKind) -> u64 {
    let range = range(platform, device, kind);
    range.end - range.start
}

fn range(platform: &Platform, device: u32, kind: CxlKind) -> Range<u64> {
    let (volatile, total) = (volatile(platform, device), total(platform, device));
    match kind {
        CxlKind::Ram => 0..volatile.min(total),
        CxlKind::Pmem => volatile.min(total)..total,
    }
}

/// Returns the place of `len` further bytes of a device; `None` if they are not free.
pub(crate) fn place(platform: &Platform, device: u32, kind: CxlKind, len: u64) -> Option<u64> {
    let range = range(platform, device, kind);
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

/// Reserves memory of a device for a decoder, until the next start. Returns the index of the decoder.
///
/// # Errors
/// Fails if the device is disabled, has not as much free memory or no free decoder, or if the named decoder is not the
/// next one.
pub fn reserve(platform: &mut Platform, device: u32, request: &DpaRequest) -> Result<usize, CxlError> {
    let endpoint = endpoint(platform, device)?;
    let kind = request.kind.unwrap_or(CxlKind::Pmem);
    let held: Vec<Allocation> = platform.state.cxl.allocations_of(device).cloned().collect();
    let of_kind = held.iter().filter(|one| one.kind == kind).map(|one| one.len).sum::<u64>();
    let available = capacity(platform, device, kind).saturating_sub(of_kind);
    let size = match request.size {
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
    if Some(target) != next {
        return Err(refused(CxlErrno::Busy, "decoders take memory in their order"));
    }
    if !size.is_multiple_of(WINDOW_ALIGN) {
        return Err(refused(CxlErrno::Invalid, "a decoder holds a multiple of 256MiB"));
    }
    if size > 0 {
        let off = place(platform, device, kind, size);
        let why = "the device has too little free memory of the kind, after what its decoders hold";
        let off = off.ok_or_else(|| refused(CxlErrno::NoSpace, why))?;
        platform.state.cxl.allocations.push(Allocation { device, kind, off, len: size, region: None });
    }
    Ok(target)
}

/// Frees memory of a device that a decoder without a region holds, or all but the size of the request. Returns the
/// index of the decoder.
///
/// # Errors
/// Fails if the device is disabled, if none of its decoders holds memory without a region, or if the named decoder is
/// not the last one.
pub fn free(platform: &mut Platform, device: u32, request: &DpaRequest) -> Result<usize, CxlError> {
    let endpoint = endpoint(platform, device)?;
    let kind = request.kind.unwrap_or(CxlKind::Pmem);
    let held: Vec<Allocation> = platform.state.cxl.allocations_of(device).cloned().collect();
    let last = held.last().filter(|one| one.region.is_none()).map(|_| held.len() - 1);
    let decoders = platform.machine.cxl.devices[device as usize].decoders as usize;
    let target = target(endpoint, device, decoders, last, request)?;
    let refused = |errno, why| {
        let object = format!("mem{device}: decoder{endpoint}.{target}");
        CxlError::Refused { object, step: "failed to set dpa allocation", errno, why }
    };
    let size = request.size.unwrap_or(0);
    if !size.is_multiple_of(WINDOW_ALIGN) {
        return Err(refused(CxlErrno::Invalid, "a decoder holds a multiple of 256MiB"));
    }
    let freed = free_from(platform, device, target);
    freed.map_err(|()| refused(CxlErrno::Busy, "decoders free memory in the reverse of their order"))?;
    if size > 0 {
        let why = "the device has too little free memory of the kind, after what its decoders hold";
        let off = place(platform, device, kind, size).ok_or_else(|| refused(CxlErrno::NoSpace, why))?;
        platform.state.cxl.allocations.push(Allocation { device, kind, off, len: size, region: None });
    }
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
