//! Changes the mode, the size and the alignment of devices.

use super::device::DeviceId;
use super::error::DaxError;
use super::find::{check_not_empty, find};
use super::memory::{block_size, whole_blocks};
use super::online::{online, online_blocks};
use super::region::DeviceRegion;
use super::space::{grow, shrink};
use super::stored::{Driver, MemoryZone};
use crate::platform::Platform;

/// Sizes of the pages of x86-64, in bytes.
pub(crate) const PAGES: [u64; 3] = [4 << 10, 2 << 20, 1 << 30];
/// Unit of the kernel's maps of memory, in bytes: no device has a part of one.
const SUBSECTION: u64 = 2 << 20;

/// A part of a reconfiguration that was done already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlreadyDone {
    /// The device is in mode devdax.
    Devdax,
    /// The device is in mode system-ram.
    SystemRam,
    /// All memory blocks are online.
    Online(u64),
}

impl AlreadyDone {
    /// Returns the sentence about a device.
    pub fn describe(self, device: DeviceId) -> String {
        match self {
            AlreadyDone::Devdax => format!("{device} was already in devdax mode"),
            AlreadyDone::SystemRam => format!("{device} was already in system-ram mode"),
            AlreadyDone::Online(blocks) => format!("{device}: all memory sections ({blocks}) already online"),
        }
    }
}

/// The mode that a device gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconfigured {
    /// Applications map the device. With `force`, its memory is taken offline first.
    Devdax {
        /// True if memory that is online is taken offline.
        force: bool,
    },
    /// The kernel uses the device as memory, in this zone. `None` leaves the memory offline.
    SystemRam(Option<MemoryZone>),
}

/// Changes the mode of a device until the next start. Returns the parts that were done already.
///
/// # Errors
/// Fails if the device does not exist, if its memory is online and `force` is not set, or if it has no whole memory
/// block.
pub fn reconfigure(
    platform: &mut Platform,
    id: DeviceId,
    to: Reconfigured,
) -> Result<Vec<AlreadyDone>, DaxError> {
    let (mut region, index) = find(platform, id)?;
    let device = &mut region.devices[index];
    let mut done = Vec::new();
    match to {
        Reconfigured::Devdax { force } => {
            if device.driver == Driver::Devdax {
                return Ok(vec![AlreadyDone::Devdax]);
            }
            check_not_empty(device)?;
            let blocks = online_blocks(platform, device);
            if blocks > 0 && !force {
                return Err(DaxError::Online { device: id, blocks });
            }
            (device.driver, device.online) = (Driver::Devdax, None);
            region.store(platform);
        }
        Reconfigured::SystemRam(zone) => {
            if device.is_memory() {
                done.push(AlreadyDone::SystemRam);
            } else {
                check_not_empty(device)?;
                let (block, size) = (block_size(&platform.machine), device.size());
                if whole_blocks(&device.ranges, block) == 0 {
                    return Err(DaxError::NoBlock { device: id, size, block });
                }
                device.driver = Driver::SystemRam;
                region.store(platform);
            }
            if let Some(zone) = zone
                && online(platform, id, zone)? == 0
            {
                let (region, index) = find(platform, id)?;
                done.push(AlreadyDone::Online(online_blocks(platform, &region.devices[index])));
            }
        }
    }
    Ok(done)
}

/// Changes the alignment and then the size of a disabled device, until the next start.
///
/// # Errors
/// Fails if the device does not exist, is enabled or is a namespace, if the values are not multiples of the units, or
/// if the region has not enough space.
pub fn reshape(
    platform: &mut Platform,
    id: DeviceId,
    size: Option<u64>,
    align: Option<u64>,
) -> Result<(), DaxError> {
    let (mut region, index) = find(platform, id)?;
    if region.namespace.is_some() {
        return Err(DaxError::OfNamespace { device: id });
    }
    if region.devices[index].driver != Driver::None {
        return Err(DaxError::Active { device: id });
    }
    shape(&mut region, index, size, align)?;
    region.store(platform);
    Ok(())
}

/// Changes the alignment and then the size of the device with this index.
pub(super) fn shape(
    region: &mut DeviceRegion,
    index: usize,
    size: Option<u64>,
    align: Option<u64>,
) -> Result<(), DaxError> {
    let device = &mut region.devices[index];
    let id = device.id;
    if let Some(align) = align {
        if !PAGES.contains(&align) {
            return Err(DaxError::Align { device: id, align });
        }
        let unit = align.max(SUBSECTION);
        let lens = device.ranges.iter().map(|range| range.end - range.start);
        if let Some(size) = lens.into_iter().find(|len| !len.is_multiple_of(unit)) {
            return Err(DaxError::Misaligned { device: id, size, unit });
        }
        device.align = align;
    }
    let Some(size) = size else { return Ok(()) };
    let (unit, old) = (device.align.max(SUBSECTION), device.size());
    if !size.is_multiple_of(unit) {
        return Err(DaxError::Misaligned { device: id, size, unit });
    }
    if size <= old {
        shrink(&mut device.ranges, old - size);
        return Ok(());
    }
    let (want, available) = (size - old, region.available());
    if want > available {
        return Err(DaxError::NoSpace { region: id.region, want, available });
    }
    grow(region, index, want);
    Ok(())
}
