//! Creates, destroys, enables and disables regions.

use super::decode::{check_ports, check_positions, ports_of, takes_granularity, takes_ways};
use super::dpa;
use super::error::{CxlErrno, CxlError};
use super::inventory::CxlListRequest;
use super::stored::{Allocation, CxlKind, StoredCxlRegion};
use super::topology::Topology;
use super::window::{self, WINDOW_ALIGN};
use crate::error::PlatformError;
use crate::machine::Machine;
use crate::platform::Platform;
use crate::region as nd;
use crate::state::State;
use uuid::Uuid;

/// Version of cxl that makes regions of volatile memory.
const RAM_REGIONS_SINCE: u32 = 77;

/// Request of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CxlRegionRequest {
    /// Its root decoder, as `decoder0.0` or `0.0`.
    pub decoder: String,
    /// Only windows of this bus.
    pub bus: Option<String>,
    /// Names of its devices, by position; empty for those of the window.
    pub devices: Vec<String>,
    /// Kind of its memory [default: persistent].
    pub kind: Option<CxlKind>,
    /// Size in bytes [default: as large as possible].
    pub size: Option<u64>,
    /// Number of devices [default: all].
    pub ways: Option<usize>,
    /// Bytes on one device before it continues on the next one [default: that of the window if it has several bridges, or
    /// else the least].
    pub granularity: Option<u64>,
    /// Its UUID, which no other region has [default: a fresh one].
    pub uuid: Option<Uuid>,
}

/// Creates a region, and enables it, until the next start. `fresh` is its UUID if the request has none. Returns its number.
///
/// # Errors
/// Fails if the window, a device or enough space does not exist, or if the kernel refuses one of the steps.
pub fn create(platform: &mut Platform, request: &CxlRegionRequest, fresh: Uuid) -> Result<u32, CxlError> {
    let kind = request.kind.unwrap_or(CxlKind::Pmem);
    let devices = devices(platform, request)?;
    let ways = devices.len();
    if let Some(size) = request.size.filter(|size| !size.is_multiple_of(ways as u64)) {
        return Err(CxlError::Uneven { size, ways });
    }
    let number = find_window(platform, request)?;
    let window = platform.machine.cxl.windows[number as usize].clone();
    let decoder = format!("decoder0.{number}");
    if !window.takes(kind) {
        return Err(CxlError::NotCapable { decoder, kind });
    }
    let size = size(platform, request, number, kind, &devices)?;
    if kind == CxlKind::Ram && platform.machine.profile.ndctl < RAM_REGIONS_SINCE {
        return Err(CxlError::NoRamRegions);
    }
    if kind == CxlKind::Ram && request.uuid.is_some() {
        return Err(CxlError::UuidOfRam);
    }
    let region_number = take_number(platform, number);
    let name = format!("region{region_number}");
    let bridges = window.bridges.len();
    let granularity = request.granularity.unwrap_or(window.default_granularity());
    if bridges > 1 && granularity != window.granularity {
        return Err(CxlError::Granularity { region: name, ways: bridges, granularity: window.granularity });
    }
    let refused = |step, errno, why| CxlError::Refused { object: name.clone(), step, errno, why };
    if !takes_granularity(&window, granularity) {
        let why = "a granularity is a power of two from 256 to 16384";
        return Err(refused("set_interleave_granularity failed", CxlErrno::Invalid, why));
    }
    if !takes_ways(&window, ways) {
        let why = "a region has 1, 2, 3, 4, 6, 8, 12 or 16 devices, and as many below each bridge of the window, a \
                   power of two";
        return Err(refused("set_interleave_ways failed", CxlErrno::Invalid, why));
    }
    if request.uuid.is_some_and(|uuid| uuid.is_nil()) {
        return Err(refused("set_uuid failed", CxlErrno::Invalid, "a region has a UUID other than zero"));
    }
    if platform.state.cxl.regions.iter().any(|other| request.uuid == Some(other.uuid)) {
        return Err(refused("set_uuid failed", CxlErrno::Busy, "another region has the UUID"));
    }
    if !size.is_multiple_of(WINDOW_ALIGN * ways as u64) {
        let why = "each device has a multiple of 256MiB";
        return Err(refused("set_size failed", CxlErrno::Invalid, why));
    }
    let gaps = window::gaps(&window, number, &platform.state.cxl);
    let gap = gaps.into_iter().find(|gap| gap.end - gap.start >= size);
    let off =
        gap.ok_or_else(|| refused("set_size failed", CxlErrno::Range, "the window has no such range"))?;
    let region = StoredCxlRegion {
        number: region_number,
        window: number,
        uuid: request.uuid.unwrap_or(fresh),
        kind,
        off: off.start,
        size,
        granularity,
        devices,
        committed: true,
        enabled: true,
    };
    attach(platform, region)?;
    Ok(region_number)
}

/// Returns the size of a requested region, in bytes: without one in the request, the largest that fits window and devices.
fn size(
    platform: &Platform,
    request: &CxlRegionRequest,
    window: u32,
    kind: CxlKind,
    devices: &[u32],
) -> Result<u64, CxlError> {
    let ways = devices.len() as u64;
    let available =
        window::largest_gap(&platform.machine.cxl.windows[window as usize], window, &platform.state.cxl);
    let size = match request.size {
        Some(size) if size > available => {
            return Err(CxlError::TooLarge { decoder: format!("decoder0.{window}"), size, available });
        }
        Some(size) => size,
        None => {
            let memory = |device: &u32| dpa::capacity(platform, *device, kind);
            let least = devices.iter().map(memory).min().unwrap_or(0).saturating_mul(ways);
            let unit = WINDOW_ALIGN * ways;
            least.min(available) / unit * unit
        }
    };
    if size == 0 { Err(CxlError::NoSize { kind }) } else { Ok(size) }
}

/// Returns the number of the root decoder that a request names.
fn find_window(platform: &Platform, request: &CxlRegionRequest) -> Result<u32, CxlError> {
    let inventory = super::inventory(platform);
    let found = inventory.root_decoder(&request.decoder, request.bus.as_deref());
    found.ok_or_else(|| CxlError::UnknownDecoder { name: request.decoder.clone() })
}

/// Returns the devices of a request: those that are named and can be reached from the window, or all of these.
fn devices(platform: &Platform, request: &CxlRegionRequest) -> Result<Vec<u32>, CxlError> {
    let inventory = super::inventory(platform);
    let names = (!request.devices.is_empty()).then(|| request.devices.join(","));
    let list = CxlListRequest {
        memdevs: true,
        memdev: names.clone(),
        decoder: Some(request.decoder.clone()),
        ..CxlListRequest::default()
    };
    let mut found = inventory.selected_memdevs(&list);
    if found.is_empty() {
        let filter = names.unwrap_or_else(|| "none".to_owned());
        return Err(CxlError::NoDevices { decoder: request.decoder.clone(), filter });
    }
    let specified = !request.devices.is_empty();
    if specified {
        let position =
            |device: &u32| request.devices.iter().position(|name| inventory.is_memdev_called(*device, name));
        found.sort_by_key(|device| position(device).unwrap_or(usize::MAX));
    }
    let ways = request.ways.unwrap_or(if specified { request.devices.len() } else { found.len() });
    if ways > found.len() || (specified && ways != found.len()) {
        return Err(CxlError::Ways { ways, devices: found.len(), specified });
    }
    found.truncate(ways);
    Ok(found)
}

/// Returns the number of the next region of a window, and gives the window another one.
fn take_number(platform: &mut Platform, window: u32) -> u32 {
    let next = next_regions(platform);
    let mut taken: Vec<u32> = next.clone();
    taken.extend(platform.state.cxl.regions.iter().map(|region| region.number));
    let first = first_number(&platform.state, &platform.machine);
    let free = (first..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX);
    let number = next[window as usize];
    platform.state.cxl.next_regions = next;
    platform.state.cxl.next_regions[window as usize] = free;
    number
}

/// Returns the number of the next region of each window. The kernel keeps one for each from its start on.
pub(crate) fn next_regions(platform: &Platform) -> Vec<u32> {
    let known = &platform.state.cxl.next_regions;
    let first = first_number(&platform.state, &platform.machine);
    let count = platform.machine.cxl.windows.len();
    if known.len() == count { known.clone() } else { (first..).take(count).collect() }
}

/// Returns the first number of regions of CXL memory: the kernel numbers all regions together.
pub(super) fn first_number(state: &State, machine: &Machine) -> u32 {
    (state.sets.len() + machine.memmap.len() + machine.soft_reserved.len()) as u32
}

/// Gives memory of its devices and decoders of the ports above them to a region.
fn attach(platform: &mut Platform, region: StoredCxlRegion) -> Result<(), CxlError> {
    let topology = Topology::of(&platform.machine.cxl);
    let share = region.size / region.devices.len() as u64;
    for device in &region.devices {
        let index = platform.state.cxl.allocations_of(*device).filter(|one| one.region.is_some()).count();
        let hardware = &platform.machine.cxl.devices[*device as usize];
        if index >= hardware.decoders as usize {
            return Err(CxlError::NoFreeDecoder { device: *device });
        }
        let decoder = format!("decoder{}.{index}", topology.endpoints[*device as usize]);
        let refused = |errno, why| CxlError::Refused {
            object: decoder.clone(),
            step: "set_dpa_size failed",
            errno,
            why,
        };
        // The first decoder without a region may hold memory that was reserved, which it gives back first.
        dpa::free_from(platform, *device, index).map_err(|()| {
            refused(CxlErrno::Busy, "a later decoder holds memory of the device; free that first")
        })?;
        let off = dpa::place(platform, *device, region.kind, share);
        let off = off.ok_or_else(|| {
            refused(
                CxlErrno::NoSpace,
                "the device has too little free memory of the kind, after what its decoders hold",
            )
        })?;
        let (device, kind, len) = (*device, region.kind, share);
        let allocation = Allocation { device, kind, off, len, region: Some(region.number) };
        platform.state.cxl.allocations.push(allocation);
    }
    let window = &platform.machine.cxl.windows[region.window as usize];
    let positions = check_positions(&platform.machine.cxl, &topology, window, &region);
    let last = region.devices.len() - 1;
    let ports = || check_ports(&topology, &platform.state.cxl.regions, &region).map_err(|why| (last, why));
    positions.and_then(|()| ports()).map_err(|(position, why)| {
        let device = region.devices[position];
        CxlError::Target { region: format!("region{}", region.number), position, device, why }
    })?;
    platform.state.cxl.regions.push(region);
    Ok(())
}

/// Destroys a region. With `force`, it is disabled first.
///
/// # Errors
/// Fails if the region does not exist, is enabled and `force` is not set, is used as memory, or has lost its decoders with a
/// device, or if a port has a later region: ports give up decoders in the reverse order.
pub fn destroy(platform: &mut Platform, number: u32, force: bool) -> Result<(), PlatformError> {
    let region = find(platform, number)?;
    let name = format!("region{number}");
    if region.enabled {
        if !force {
            return Err(CxlError::Active { region: name }.into());
        }
        set_enabled(platform, number, false)?;
    }
    if !region.committed {
        let why = "a device of it was disabled, and cxl finds no decoder for its position; a start forgets the region";
        return Err(CxlError::Refused { object: name, step: "failed", errno: CxlErrno::NoDevice, why }.into());
    }
    let busy = |why| CxlError::Refused {
        object: name.clone(),
        step: "failed to reset decode",
        errno: CxlErrno::Busy,
        why,
    };
    let topology = Topology::of(&platform.machine.cxl);
    let ports = ports_of(&topology, &region);
    let later = platform.state.cxl.regions.iter().skip_while(|other| other.number != number).skip(1);
    let shares_port =
        |other: &StoredCxlRegion| ports_of(&topology, other).iter().any(|port| ports.contains(port));
    if later.filter(|other| other.committed).any(shares_port) {
        return Err(busy("a later region has a decoder of the same port; destroy the last one first").into());
    }
    let is_last = |device: &u32| {
        let held = platform.state.cxl.allocations_of(*device).next_back();
        held.is_none_or(|last| last.region == Some(number))
    };
    if !region.devices.iter().all(is_last) {
        return Err(busy("a later decoder of a device holds memory; free that first").into());
    }
    let cxl = &mut platform.state.cxl;
    cxl.allocations.retain(|one| one.region != Some(number));
    cxl.regions.retain(|one| one.number != number);
    // The kernel gives the number to the next region of the window if it is below the one that it has for that.
    if let Some(next) = cxl.next_regions.get_mut(region.window as usize) {
        *next = (*next).min(number);
    }
    Ok(())
}

/// Enables or disables a region.
///
/// # Errors
/// Fails if the region does not exist, if it is to be enabled and has no decoders, or if it is to be disabled and the
/// kernel uses it as memory.
pub fn set_enabled(platform: &mut Platform, number: u32, enable: bool) -> Result<(), PlatformError> {
    let region = find(platform, number)?;
    if enable && !region.committed {
        let why = "its decoders are reset, since a device of it was disabled; a start forgets the region";
        let object = format!("region{number}");
        return Err(CxlError::Refused { object, step: "failed", errno: CxlErrno::NoDevice, why }.into());
    }
    if !enable {
        nd::withdraw(platform, number)?;
    }
    let regions = platform.state.cxl.regions.iter_mut();
    regions.filter(|one| one.number == number).for_each(|one| one.enabled = enable);
    Ok(())
}

fn find(platform: &Platform, number: u32) -> Result<StoredCxlRegion, CxlError> {
    let region = platform.state.cxl.region(number).cloned();
    region.ok_or(CxlError::UnknownRegion { region: number })
}
