//! Enables, disables and partitions devices.

use super::dpa;
use super::error::CxlError;
use super::stored::{CxlKind, CxlPartition};
use super::topology::{Level, Topology};
use crate::error::PlatformError;
use crate::machine::Handle;
use crate::platform::Platform;
use crate::region as nd;

/// Request to divide the capacity of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionRequest {
    /// Kind of memory whose size is given [default: persistent].
    pub kind: Option<CxlKind>,
    /// Its bytes [default: all that can be divided].
    pub size: Option<u64>,
    /// Rounds to the device's unit, so that the kind has at least the size.
    pub align: bool,
}

/// Disables a device until the next start. Its decoders are reset: regions of it are disabled until then, too.
///
/// # Errors
/// Fails without `force` if the device is enabled: like cxl, this takes each enabled device for a part of a region.
/// Fails also if the kernel uses a region of it as memory.
pub fn disable(platform: &mut Platform, device: u32, force: bool) -> Result<(), PlatformError> {
    dpa::check_exists(platform, device)?;
    if platform.state.cxl.disabled_devices.contains(&device) {
        return Ok(());
    }
    if !force {
        return Err(CxlError::ActiveDevice { device }.into());
    }
    let regions = platform.state.cxl.regions.iter().filter(|region| region.devices.contains(&device));
    let numbers: Vec<u32> = regions.map(|region| region.number).collect();
    for number in &numbers {
        nd::withdraw(platform, *number)?;
    }
    // A module that comes back is enabled.
    platform.state.disabled_modules.retain(|module| *module != Handle::of_cxl(device));
    let cxl = &mut platform.state.cxl;
    for region in cxl.regions.iter_mut().filter(|region| numbers.contains(&region.number)) {
        (region.committed, region.enabled) = (false, false);
    }
    // Decoders of the other devices keep their memory, and the region.
    cxl.allocations.retain(|one| one.device != device);
    cxl.disabled_devices.push(device);
    cxl.disabled_devices.sort_unstable();
    Ok(())
}

/// Enables a device.
///
/// # Errors
/// Fails if the port of the host bridge above it is disabled.
pub fn enable(platform: &mut Platform, device: u32) -> Result<(), CxlError> {
    dpa::check_exists(platform, device)?;
    let topology = Topology::of(&platform.machine.cxl);
    let above = topology.above(topology.endpoints[device as usize]);
    let disabled =
        above.map(|port| port as u32).find(|port| platform.state.cxl.disabled_ports.contains(port));
    if let Some(port) = disabled {
        return Err(CxlError::PortDisabled { device, port });
    }
    platform.state.cxl.disabled_devices.retain(|one| *one != device);
    Ok(())
}

/// Disables a port until the next start, and the devices below it.
///
/// # Errors
/// Fails if the port does not exist, without `force` if a device below it is enabled, or if the kernel uses a region of
/// such a device as memory.
pub fn disable_port(platform: &mut Platform, port: u32, force: bool) -> Result<(), PlatformError> {
    let topology = Topology::of(&platform.machine.cxl);
    let below = enabled_below(platform, &topology, port);
    if !below.is_empty() && !force {
        let kind = match topology.ports[port as usize].level {
            Level::Root => "root",
            Level::Bridge | Level::Switch => "port",
            Level::Endpoint => "endpoint",
        };
        return Err(CxlError::ActivePort { port: format!("{kind}{port}"), count: below.len() }.into());
    }
    for device in below {
        disable(platform, device, true)?;
    }
    // The kernel forgets a switch without devices, and an endpoint without its device.
    let level = topology.ports.get(port as usize).map(|one| one.level);
    let disabled = &mut platform.state.cxl.disabled_ports;
    if matches!(level, Some(Level::Root | Level::Bridge)) && !disabled.contains(&port) {
        disabled.push(port);
        disabled.sort_unstable();
    }
    Ok(())
}

/// Enables a port, and with `memdevs` the devices below it.
///
/// # Errors
/// Those of [`enable`].
pub fn enable_port(platform: &mut Platform, port: u32, memdevs: bool) -> Result<(), CxlError> {
    platform.state.cxl.disabled_ports.retain(|one| *one != port);
    let topology = Topology::of(&platform.machine.cxl);
    for device in 0..platform.machine.cxl.devices.len() as u32 {
        if memdevs && topology.dport_to(port as usize, device).is_some() {
            enable(platform, device)?;
        }
    }
    Ok(())
}

fn enabled_below(platform: &Platform, topology: &Topology, port: u32) -> Vec<u32> {
    let is_below = |device: &u32| {
        topology.dport_to(port as usize, *device).is_some()
            || topology.endpoints[*device as usize] == port as usize
    };
    let devices = (0..platform.machine.cxl.devices.len() as u32).filter(is_below);
    devices.filter(|device| !platform.state.cxl.disabled_devices.contains(device)).collect()
}

/// Divides the capacity of a device into volatile and persistent memory from the next start on.
///
/// # Errors
/// Fails if the device can't be divided, if the size is larger than its capacity, or if it is no multiple of the unit and
/// `align` is not set.
pub fn set_partition(
    platform: &mut Platform,
    device: u32,
    request: PartitionRequest,
) -> Result<(), CxlError> {
    dpa::check_exists(platform, device)?;
    let alignment = platform.machine.cxl.devices[device as usize].partition_alignment;
    if alignment == 0 {
        return Err(CxlError::NoCapacity { device });
    }
    let available = dpa::total(platform, device);
    let is_pmem = request.kind != Some(CxlKind::Ram);
    let size = request.size.unwrap_or(available);
    if size > available {
        return Err(CxlError::Exceeds { device, size, available });
    }
    let mut next = if is_pmem { available - size } else { size };
    if !next.is_multiple_of(alignment) {
        if !request.align {
            return Err(CxlError::Unaligned { device, size: next, alignment });
        }
        next = if is_pmem { next / alignment } else { next.div_ceil(alignment) } * alignment;
        if next > available {
            return Err(CxlError::Exceeds { device, size: next, available });
        }
    }
    let volatile = dpa::volatile(platform, device);
    let partitions = &mut platform.state.cxl.partitions;
    partitions.retain(|one| one.device != device);
    partitions.push(CxlPartition { device, volatile, next_volatile: next });
    partitions.sort_by_key(|one| one.device);
    Ok(())
}
