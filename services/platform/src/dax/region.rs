//! Regions of character devices.

use super::device::{Device, DeviceId};
use super::memory::{block_size, whole_blocks};
use super::stored::{Driver, StoredDevice, StoredRange};
use crate::cxl;
use crate::machine::SoftReserved;
use crate::namespace::Namespace;
use crate::platform::Platform;
use crate::region::Region;
use crate::state::State;
use std::ops::Range;

/// Alignment of mappings and of devices in memory that firmware reserves, in bytes.
const RESERVED_ALIGN: u64 = 2 << 20;

/// A region of character devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRegion {
    /// X of daxX.Y. Devices in the namespaces of one nd region have its number.
    pub number: u32,
    /// Its physical addresses.
    pub range: Range<u64>,
    /// Default alignment of its devices, in bytes.
    pub align: u64,
    /// NUMA node of its memory if the kernel uses it.
    pub target_node: i64,
    /// Number of the namespace that it is: it has one device, of its size. `None` for memory that firmware reserves, and
    /// for CXL memory.
    pub namespace: Option<u32>,
    /// Number of the window of a region of volatile CXL memory; `None` for other regions.
    pub window: Option<u32>,
    /// The devices.
    pub devices: Vec<Device>,
}

impl DeviceRegion {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Returns the bytes that belong to no device.
    pub fn available(&self) -> u64 {
        self.size() - self.devices.iter().map(Device::size).sum::<u64>()
    }

    /// Stores the devices; those that the kernel makes at a start need no entry.
    pub(super) fn store(&self, platform: &mut Platform) {
        let initial = self.initial_devices(platform);
        let is_of_region = |one: &StoredDevice| {
            one.region == self.number && self.namespace.is_none_or(|number| one.number == number)
        };
        let stored = &mut platform.state.dax_devices;
        stored.retain(|one| !is_of_region(one));
        if self.devices != initial {
            stored.extend(self.devices.iter().map(|device| self.stored(device)));
            stored.sort_by_key(DeviceId::of);
        }
    }

    fn stored(&self, device: &Device) -> StoredDevice {
        let range = |range: &Range<u64>| StoredRange {
            off: range.start - self.range.start,
            len: range.end - range.start,
        };
        let (align, ranges) = match self.namespace {
            Some(_) => (None, Vec::new()),
            None => (Some(device.align), device.ranges.iter().map(range).collect()),
        };
        let (DeviceId { region, number }, driver, online) = (device.id, device.driver, device.online);
        StoredDevice { region, number, driver, online, align, ranges }
    }

    /// Returns the devices that the kernel makes at a start.
    fn initial_devices(&self, platform: &Platform) -> Vec<Device> {
        let takes_as_memory = platform.machine.profile.kernel.takes_soft_reserved_as_memory();
        let has_block = whole_blocks(std::slice::from_ref(&self.range), block_size(&platform.machine)) > 0;
        let driver = if takes_as_memory && has_block && self.namespace.is_none() {
            Driver::SystemRam
        } else {
            Driver::Devdax
        };
        let id = DeviceId { region: self.number, number: self.namespace.unwrap_or(0) };
        let (ranges, align) = (vec![self.range.clone()], self.align);
        vec![Device { id, ranges, align, driver, online: None }]
    }

    /// Replaces the devices by those in the state.
    fn load(mut self, platform: &Platform) -> DeviceRegion {
        self.devices = self.initial_devices(platform);
        let state = &platform.state;
        if let Some(number) = self.namespace {
            if let Some(known) = stored_of(state, self.number).find(|one| one.number == number) {
                let device = &mut self.devices[0];
                (device.driver, device.online) = (known.driver, known.online);
            }
            return self;
        }
        let known: Vec<Device> = stored_of(state, self.number).map(|one| self.device(one)).collect();
        if !known.is_empty() {
            self.devices = known;
        }
        self
    }

    fn device(&self, stored: &StoredDevice) -> Device {
        let range = |range: &StoredRange| {
            let start = self.range.start + range.off;
            start..start + range.len
        };
        Device {
            id: DeviceId::of(stored),
            ranges: stored.ranges.iter().map(range).collect(),
            align: stored.align.unwrap_or(self.align),
            driver: stored.driver,
            online: stored.online,
        }
    }
}

fn stored_of(state: &State, region: u32) -> impl Iterator<Item = &StoredDevice> {
    state.dax_devices.iter().filter(move |one| one.region == region)
}

/// Returns the regions of character devices: those of namespaces, then those of reserved memory, then those of volatile
/// CXL memory.
pub fn regions(platform: &Platform) -> Vec<DeviceRegion> {
    let nd_regions = platform.regions();
    let mut found = Vec::new();
    for region in &nd_regions {
        let namespaces = platform.namespaces(region);
        found.extend(namespaces.iter().filter_map(|one| namespace_region(platform, region, one)));
    }
    let first = (platform.state.sets.len() + platform.machine.memmap.len()) as u32;
    let reserved = (first..).zip(&platform.machine.soft_reserved);
    found.extend(reserved.map(|(number, range)| reserved_region(platform, number, range)));
    found.extend(cxl::ram_regions(platform).into_iter().map(|region| cxl_region(platform, &region)));
    found
}

/// Returns the region of a namespace; `None` if it has no character device, or is disabled.
pub(crate) fn namespace_region(
    platform: &Platform,
    region: &Region,
    namespace: &Namespace,
) -> Option<DeviceRegion> {
    namespace.character_device().filter(|_| namespace.enabled)?;
    let map = namespace.page_map()?;
    // The page map precedes the data.
    let start = region.base + namespace.offset + map.data_start();
    let region = DeviceRegion {
        number: region.number,
        range: start..start + namespace.usable(),
        align: map.align.into(),
        target_node: target_node(platform, region.number),
        namespace: Some(namespace.number),
        window: None,
        devices: Vec::new(),
    };
    Some(region.load(platform))
}

fn reserved_region(platform: &Platform, number: u32, range: &SoftReserved) -> DeviceRegion {
    let region = DeviceRegion {
        number,
        range: range.start..range.start + range.size,
        align: RESERVED_ALIGN,
        target_node: target_node(platform, number),
        namespace: None,
        window: None,
        devices: Vec::new(),
    };
    region.load(platform)
}

fn cxl_region(platform: &Platform, one: &cxl::RamRegion) -> DeviceRegion {
    let region = DeviceRegion {
        number: one.number,
        range: one.start..one.start.saturating_add(one.size),
        align: RESERVED_ALIGN,
        target_node: target_node(platform, one.number),
        namespace: None,
        window: Some(one.window),
        devices: Vec::new(),
    };
    region.load(platform)
}

/// Returns the NUMA node of a region if the kernel uses it as memory. These numbers follow those of the sockets.
pub(crate) fn target_node(platform: &Platform, region: u32) -> i64 {
    (platform.machine.sockets().len() as i64) + i64::from(region)
}
