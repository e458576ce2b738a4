//! CXL memory as the kernel's libnvdimm has it: a bus with a module for each device that has persistent memory, and the
//! regions of such memory.
//!
//! ```text
//! window of persistent memory      the bus CXL
//! device with such memory          nmemN, after the modules of firmware's table
//! region of it, while enabled      a region of the same number, with labels of version 1.2 in the devices' label areas
//! ```
//!
//! Kernels up to 6.12 neither write nor read the labels of regions that CXL defines. The labels of namespaces have the
//! id of [`cookie`] instead.

use super::dpa;
use super::stored::{CxlKind, StoredCxlRegion};
use super::window;
use crate::machine::Handle;
use crate::platform::Platform;
use lode_layout::fletcher64;

/// A region of persistent memory that the kernel uses.
pub(crate) struct PmemRegion {
    pub(crate) number: u32,
    /// First physical address.
    pub(crate) start: u64,
    /// Size in bytes.
    pub(crate) size: u64,
    /// Socket of its first device.
    pub(crate) socket: u16,
    /// Bytes on one device before it continues on the next one.
    pub(crate) granularity: u64,
    /// Numbers of the devices, by position, with the address of the share on the device.
    pub(crate) members: Vec<(u32, u64)>,
    /// Its id in labels.
    pub(crate) cookie: u64,
}

/// Returns true if the kernel has the bus of CXL modules: a window takes persistent memory.
pub(crate) fn has_bus(platform: &Platform) -> bool {
    let takes_pmem = platform.machine.cxl.windows.iter().any(|window| window.persistent);
    takes_pmem && !platform.state.cxl.disabled_ports.contains(&0)
}

/// Returns the numbers of the devices with persistent memory, which are the kernel's modules after those of firmware's
/// table. A disabled device keeps its number.
pub(crate) fn nvdimms(platform: &Platform) -> Vec<u32> {
    let devices = 0..platform.machine.cxl.devices.len() as u32;
    devices.filter(|device| dpa::capacity(platform, *device, CxlKind::Pmem) > 0).collect()
}

/// Returns true if the kernel has a module for the device.
pub(crate) fn is_nvdimm(platform: &Platform, device: u32) -> bool {
    has_bus(platform)
        && nvdimms(platform).contains(&device)
        && !platform.state.cxl.disabled_devices.contains(&device)
}

/// Returns true if the kernel uses the module of the device: it is not disabled, and its label area can be read.
pub(crate) fn is_nvdimm_enabled(platform: &Platform, device: u32) -> bool {
    is_nvdimm(platform, device)
        && !platform.state.is_disabled(Handle::of_cxl(device))
        && platform.contents.has_cxl_area(device)
}

/// Returns the regions of persistent memory that are enabled, in the order of their numbers.
pub(crate) fn pmem_regions(platform: &Platform) -> Vec<PmemRegion> {
    if !has_bus(platform) {
        return Vec::new();
    }
    let starts = window::starts(&platform.machine);
    let regions = platform.state.cxl.regions.iter();
    let enabled = regions.filter(|one| one.enabled && one.committed && one.kind == CxlKind::Pmem);
    let mut found: Vec<PmemRegion> =
        enabled.filter_map(|region| pmem_region(platform, &starts, region)).collect();
    found.sort_by_key(|region| region.number);
    found
}

fn pmem_region(platform: &Platform, starts: &[u64], region: &StoredCxlRegion) -> Option<PmemRegion> {
    let state = &platform.state.cxl;
    let member = |device: &u32| {
        let mut held = state.allocations_of(*device);
        held.find(|one| one.region == Some(region.number)).map(|one| (*device, one.off))
    };
    let members: Vec<(u32, u64)> = region.devices.iter().map(member).collect::<Option<_>>()?;
    let hardware = &platform.machine.cxl;
    let first = hardware.devices.get(*region.devices.first()? as usize)?;
    Some(PmemRegion {
        number: region.number,
        start: starts.get(region.window as usize)?.saturating_add(region.off),
        size: region.size,
        socket: hardware.bridge_above(&first.above).map_or(0, |bridge| bridge.socket),
        granularity: region.granularity,
        cookie: cookie(platform, &members),
        members,
    })
}

/// Returns the id of a region in labels: the checksum of address and serial number of each share, by position.
fn cookie(platform: &Platform, members: &[(u32, u64)]) -> u64 {
    let serial = |device: u32| platform.machine.cxl.devices.get(device as usize).map_or(0, |one| one.serial);
    let words = members.iter().flat_map(|(device, off)| [*off, serial(*device)]);
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    fletcher64(&bytes)
}
