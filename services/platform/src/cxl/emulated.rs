//! Inventory of the CXL memory of an emulated machine.

use super::decode::{PORT_DECODERS, port_decoder};
use super::dpa;
use super::inventory::{
    CxlDecoder, CxlInventory, CxlMapping, CxlMemdev, CxlPartitionView, CxlPortLevel, CxlPortView, CxlRegion,
    CxlWindowView,
};
use super::region::next_regions;
use super::stored::{CxlKind, StoredCxlRegion};
use super::topology::{Dport, Level, Topology, TopologyPort};
use super::window::{self, IDLE_GRANULARITY};
use crate::platform::Platform;
use lode_nvdimm::Interleave;
use std::mem;

/// Version of cxl that lists the kind of regions.
const LISTS_KIND_SINCE: u32 = 77;

/// Returns the inventory of the CXL memory of an emulated machine.
pub fn inventory(platform: &Platform) -> CxlInventory {
    if platform.machine.cxl.bridges.is_empty() {
        return CxlInventory::default();
    }
    let view = View {
        platform,
        topology: Topology::of(&platform.machine.cxl),
        starts: window::starts(&platform.machine),
    };
    CxlInventory {
        memdevs: (0..platform.machine.cxl.devices.len() as u32).map(|device| view.memdev(device)).collect(),
        // Without the bus, the kernel knows no port.
        ports: (0..if platform.state.cxl.disabled_ports.contains(&0) {
            0
        } else {
            view.topology.ports.len()
        })
            .filter_map(|number| view.port(number))
            .collect(),
        lists_kind: platform.machine.profile.ndctl >= LISTS_KIND_SINCE,
    }
}

struct View<'a> {
    platform: &'a Platform,
    topology: Topology,
    starts: Vec<u64>,
}

impl View<'_> {
    fn is_enabled(&self, device: u32) -> bool {
        !self.platform.state.cxl.disabled_devices.contains(&device)
    }

    fn memdev(&self, number: u32) -> CxlMemdev {
        let platform = self.platform;
        let hardware = &platform.machine.cxl.devices[number as usize];
        let bridge = platform.machine.cxl.bridge_above(&hardware.above);
        let partition = platform.state.cxl.partitions.iter().find(|one| one.device == number);
        let volatile = dpa::volatile(platform, number);
        let total = dpa::total(platform, number);
        let divisible = hardware.partition_alignment > 0;
        let view = CxlPartitionView {
            total,
            volatile_only: if divisible { 0 } else { volatile },
            persistent_only: if divisible { 0 } else { total - volatile },
            alignment: hardware.partition_alignment,
            active_volatile: volatile,
            next_volatile: partition.map_or(volatile, |one| one.next_volatile),
        };
        CxlMemdev {
            number,
            pmem_size: dpa::capacity(platform, number, CxlKind::Pmem),
            ram_size: dpa::capacity(platform, number, CxlKind::Ram),
            serial: Some(hardware.serial),
            numa_node: bridge.map(|bridge| bridge.socket.into()),
            host: self.topology.hosts[number as usize].clone(),
            enabled: self.is_enabled(number),
            firmware: hardware.firmware.clone(),
            label_area: hardware.label_area,
            partition: Some(view),
            poison: self.poison(number),
        }
    }

    /// Returns a port; `None` for an endpoint without its device, and for a switch without devices.
    fn port(&self, number: usize) -> Option<CxlPortView> {
        let port = &self.topology.ports[number];
        let memdev = self.topology.endpoints.iter().position(|endpoint| *endpoint == number);
        let memdev = memdev.map(|device| device as u32);
        let has_devices = || {
            let devices = 0..self.platform.machine.cxl.devices.len() as u32;
            devices
                .filter(|one| self.is_enabled(*one))
                .any(|one| self.topology.dport_to(number, one).is_some())
        };
        let (level, exists) = match port.level {
            Level::Root => (CxlPortLevel::Root, true),
            Level::Bridge => (CxlPortLevel::Switch, true),
            Level::Switch => (CxlPortLevel::Switch, has_devices()),
            Level::Endpoint => (CxlPortLevel::Endpoint, memdev.is_some_and(|device| self.is_enabled(device))),
        };
        let enabled = !self.platform.state.cxl.disabled_ports.contains(&(number as u32));
        exists.then(|| CxlPortView {
            number: number as u32,
            level,
            above: port.above.map(|above| above as u32),
            dport: port.dport,
            host: self.host(port),
            enabled,
            // The driver of a port finds both.
            dports: if enabled { self.dports(port) } else { Vec::new() },
            decoders: if enabled { self.decoders(number, port, memdev) } else { Vec::new() },
            memdev,
        })
    }

    /// Returns the device of a port.
    fn host(&self, port: &TopologyPort) -> String {
        let of_acpi = port.level == Level::Bridge && !self.names_bridges_by_bus();
        let root = &self.topology.ports[0];
        if of_acpi { root.dports[port.dport].name.clone() } else { port.host.clone() }
    }

    fn dports(&self, port: &TopologyPort) -> Vec<Dport> {
        let mut dports = port.dports.clone();
        for Dport { name, alias, .. } in &mut dports {
            if let Some(bus) = alias.as_mut().filter(|_| self.names_bridges_by_bus()) {
                mem::swap(name, bus);
            }
        }
        dports
    }

    fn names_bridges_by_bus(&self) -> bool {
        self.platform.machine.profile.kernel.names_bridges_by_bus()
    }

    fn decoders(&self, number: usize, port: &TopologyPort, memdev: Option<u32>) -> Vec<CxlDecoder> {
        match (port.level, memdev) {
            (Level::Root, _) => {
                let count = self.platform.machine.cxl.windows.len() as u32;
                (0..count).map(|window| self.root_decoder(window)).collect()
            }
            (_, Some(device)) => self.endpoint_decoders(device),
            _ => self.port_decoders(number),
        }
    }

    fn start(&self, region: &StoredCxlRegion) -> u64 {
        self.starts[region.window as usize].saturating_add(region.off)
    }

    fn root_decoder(&self, number: u32) -> CxlDecoder {
        let cxl = &self.platform.machine.cxl;
        let window = &cxl.windows[number as usize];
        let state = &self.platform.state.cxl;
        let position = |id: &u64| cxl.bridges.iter().position(|bridge| bridge.id == *id);
        let mut regions: Vec<CxlRegion> =
            state.regions.iter().filter(|one| one.window == number).map(|one| self.region(one)).collect();
        regions.sort_by_key(|region| region.start);
        CxlDecoder {
            start: Some(self.starts[number as usize]),
            size: window.size,
            ways: window.bridges.len() as u32,
            granularity: window.default_granularity(),
            targets: window.bridges.iter().filter_map(position).collect(),
            window: Some(CxlWindowView {
                largest_available: window::largest_gap(window, number, state),
                pmem: window.persistent,
                ram: window.volatile,
                accelerator: window.accelerator,
                next_region: next_regions(self.platform)[number as usize],
            }),
            regions,
            ..CxlDecoder::default()
        }
    }

    /// Returns the decoders of a host bridge or switch. The first ones have the regions, in the order in which these were
    /// made.
    fn port_decoders(&self, number: usize) -> Vec<CxlDecoder> {
        let regions = self.platform.state.cxl.regions.iter().filter(|region| region.committed);
        let mut decoders: Vec<CxlDecoder> = regions
            .filter_map(|region| {
                let window = &self.platform.machine.cxl.windows[region.window as usize];
                let decoder = port_decoder(&self.topology, window, region, number)?;
                Some(CxlDecoder {
                    start: Some(self.start(region)),
                    size: region.size,
                    ways: decoder.dports.len() as u32,
                    granularity: decoder.granularity,
                    targets: decoder.dports,
                    region: Some(region.number),
                    ..CxlDecoder::default()
                })
            })
            .collect();
        // An idle decoder has the first downstream port as its target.
        let idle =
            CxlDecoder { ways: 1, granularity: IDLE_GRANULARITY, targets: vec![0], ..CxlDecoder::default() };
        decoders.resize(decoders.len().max(PORT_DECODERS), idle);
        decoders
    }

    fn endpoint_decoders(&self, device: u32) -> Vec<CxlDecoder> {
        let state = &self.platform.state.cxl;
        let held = state.allocations_of(device).map(|one| {
            let region = one.region.and_then(|number| state.region(number));
            let idle = CxlDecoder { ways: 1, granularity: IDLE_GRANULARITY, ..CxlDecoder::default() };
            let decoder = region.map_or(idle, |region| CxlDecoder {
                start: Some(self.start(region)),
                size: region.size,
                ways: region.devices.len() as u32,
                granularity: region.granularity,
                region: Some(region.number),
                ..CxlDecoder::default()
            });
            CxlDecoder { dpa: Some((one.off, one.len)), kind: Some(one.kind), ..decoder }
        });
        let mut decoders: Vec<CxlDecoder> = held.collect();
        let idle = CxlDecoder { ways: 1, granularity: IDLE_GRANULARITY, ..CxlDecoder::default() };
        let count = self.platform.machine.cxl.devices[device as usize].decoders as usize;
        decoders.resize(decoders.len().max(count), idle);
        decoders
    }

    /// Returns the addresses of the poisoned lines of a device. The kernel reads no list of a disabled one.
    fn poison(&self, device: u32) -> Vec<u64> {
        match self.is_enabled(device) {
            true => self.platform.state.cxl.poison_in(device, 0..u64::MAX).collect(),
            false => Vec::new(),
        }
    }

    /// Returns the offsets of the poisoned lines of a region. The kernel finds none without the decoders.
    fn poison_of_region(&self, region: &StoredCxlRegion) -> Vec<u64> {
        let state = &self.platform.state.cxl;
        let share = region.size / region.devices.len().max(1) as u64;
        let spread = Interleave::new(region.devices.len() as u16, region.granularity, share);
        let Some(spread) = spread.ok().filter(|_| region.committed) else { return Vec::new() };
        let of_device = |(position, device): (u16, &u32)| {
            let held = state.allocations_of(*device).find(|one| one.region == Some(region.number));
            let (start, end) = held.map_or((0, 0), |one| (one.off, one.off + one.len));
            let poison = state.poison_in(*device, start..end);
            poison.filter_map(|off| spread.region_off(position, off - start)).collect::<Vec<u64>>()
        };
        let mut offsets: Vec<u64> = (0..).zip(&region.devices).flat_map(of_device).collect();
        offsets.sort_unstable();
        offsets
    }

    fn region(&self, region: &StoredCxlRegion) -> CxlRegion {
        let state = &self.platform.state.cxl;
        let mapping = |(position, device): (usize, &u32)| {
            let mut held = state.allocations_of(*device);
            let decoder = held.position(|one| one.region == Some(region.number))?;
            let endpoint = self.topology.endpoints[*device as usize] as u32;
            Some(CxlMapping { position: position as u32, memdev: *device, endpoint, decoder: decoder as u32 })
        };
        CxlRegion {
            number: region.number,
            start: Some(self.start(region)),
            size: region.size,
            kind: region.kind,
            ways: region.devices.len() as u32,
            granularity: region.granularity,
            uuid: Some(region.uuid),
            committed: region.committed,
            enabled: region.enabled,
            mappings: region.devices.iter().enumerate().filter_map(mapping).collect(),
            poison: self.poison_of_region(region),
        }
    }
}

/// An enabled region of volatile memory.
pub(crate) struct RamRegion {
    pub(crate) number: u32,
    /// Number of its window.
    pub(crate) window: u32,
    /// First physical address.
    pub(crate) start: u64,
    /// Size in bytes.
    pub(crate) size: u64,
}

/// Returns the enabled regions of volatile memory.
pub(crate) fn ram_regions(platform: &Platform) -> Vec<RamRegion> {
    let starts = window::starts(&platform.machine);
    let regions = platform.state.cxl.regions.iter();
    let enabled = regions.filter(|region| region.enabled && region.kind == CxlKind::Ram);
    let range = |region: &StoredCxlRegion| RamRegion {
        number: region.number,
        window: region.window,
        start: starts[region.window as usize].saturating_add(region.off),
        size: region.size,
    };
    enabled.map(range).collect()
}
