//! Inventory of CXL memory as plain data, from which listings are printed.
//!
//! ```text
//!   Platform (emulated)  -->  CxlInventory  -->  cxl list
//! ```
//!
//! `None` stands for an unknown value, which listings leave out like cxl.

use super::stored::CxlKind;
use super::topology::Dport;
use crate::ndctl::order::sort_as_listed;
use uuid::Uuid;

/// Inventory of CXL memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CxlInventory {
    /// The devices, in the order of their numbers.
    pub memdevs: Vec<CxlMemdev>,
    /// The ports, in the order of their numbers.
    pub ports: Vec<CxlPortView>,
    /// True if listings have the kind of regions, as from version 77 of cxl on.
    pub lists_kind: bool,
}

/// A memory device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CxlMemdev {
    /// N of memN.
    pub number: u32,
    /// Bytes of persistent memory.
    pub pmem_size: u64,
    /// Bytes of volatile memory.
    pub ram_size: u64,
    /// Serial number.
    pub serial: Option<u64>,
    /// NUMA node of its host bridge.
    pub numa_node: Option<i64>,
    /// Its PCI address.
    pub host: String,
    /// True if a driver is bound to it.
    pub enabled: bool,
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// Bytes of its label storage area.
    pub label_area: u64,
    /// Division of its capacity.
    pub partition: Option<CxlPartitionView>,
    /// Addresses of its poisoned lines.
    pub poison: Vec<u64>,
}

/// Division of a device's capacity, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CxlPartitionView {
    /// All memory.
    pub total: u64,
    /// Memory that is always volatile.
    pub volatile_only: u64,
    /// Memory that is always persistent.
    pub persistent_only: u64,
    /// Unit of the division; 0 if it is fixed.
    pub alignment: u64,
    /// Volatile memory of the rest.
    pub active_volatile: u64,
    /// Volatile memory of the rest after the next start.
    pub next_volatile: u64,
}

/// Level of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CxlPortLevel {
    /// The root, which listings call a bus.
    Root,
    /// A host bridge or a switch.
    Switch,
    /// A device.
    Endpoint,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CxlPortView {
    /// Its number.
    pub number: u32,
    /// Its level.
    pub level: CxlPortLevel,
    /// Number of the port above it; `None` for a root.
    pub above: Option<u32>,
    /// Position of the downstream port above it.
    pub dport: usize,
    /// Its device.
    pub host: String,
    /// True if a driver is bound to it.
    pub enabled: bool,
    /// Its downstream ports, in the order of their ids.
    pub dports: Vec<Dport>,
    /// Its decoders, in their order.
    pub decoders: Vec<CxlDecoder>,
    /// Number of the device of an endpoint.
    pub memdev: Option<u32>,
}

/// A decoder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CxlDecoder {
    /// First physical address.
    pub start: Option<u64>,
    /// Size in bytes; 0 if it decodes nothing.
    pub size: u64,
    /// Number of targets over which it interleaves.
    pub ways: u32,
    /// Bytes on one target before it continues on the next one.
    pub granularity: u64,
    /// Positions of the downstream ports over which it interleaves.
    pub targets: Vec<usize>,
    /// Memory that the decoder of an endpoint holds: first address on the device, and bytes.
    pub dpa: Option<(u64, u64)>,
    /// Kind of the memory of an endpoint's decoder.
    pub kind: Option<CxlKind>,
    /// The window that it is; `None` for other decoders.
    pub window: Option<CxlWindowView>,
    /// Number of the region that it decodes.
    pub region: Option<u32>,
    /// The regions of a window, in the order of their addresses.
    pub regions: Vec<CxlRegion>,
}

/// An address window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CxlWindowView {
    /// Bytes of its largest free range.
    pub largest_available: u64,
    /// True if it takes persistent memory.
    pub pmem: bool,
    /// True if it takes volatile memory.
    pub ram: bool,
    /// True if it takes memory of accelerators.
    pub accelerator: bool,
    /// Number of its next region.
    pub next_region: u32,
}

/// A region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CxlRegion {
    /// N of regionN.
    pub number: u32,
    /// First physical address.
    pub start: Option<u64>,
    /// Size in bytes.
    pub size: u64,
    /// Kind of its memory.
    pub kind: CxlKind,
    /// Number of devices.
    pub ways: u32,
    /// Bytes on one device before it continues on the next one.
    pub granularity: u64,
    /// Its UUID.
    pub uuid: Option<Uuid>,
    /// True if decoders have it.
    pub committed: bool,
    /// True if the kernel uses it.
    pub enabled: bool,
    /// Its parts on devices.
    pub mappings: Vec<CxlMapping>,
    /// Offsets of its poisoned lines.
    pub poison: Vec<u64>,
}

/// The part of a region that is on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CxlMapping {
    /// Its position.
    pub position: u32,
    /// Number of the device.
    pub memdev: u32,
    /// Number of the endpoint.
    pub endpoint: u32,
    /// Index of the endpoint's decoder.
    pub decoder: u32,
}

/// Parameters of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CxlListRequest {
    /// `-M`
    pub memdevs: bool,
    /// `-B`
    pub buses: bool,
    /// `-P`
    pub ports: bool,
    /// `-E`
    pub endpoints: bool,
    /// `-D`
    pub decoders: bool,
    /// `-R`
    pub regions: bool,
    /// `-T`
    pub targets: bool,
    /// `-i`: disabled objects and idle decoders, too.
    pub idle: bool,
    /// `-H`
    pub health: bool,
    /// `-I`
    pub partition: bool,
    /// `-A`
    pub alerts: bool,
    /// `-L`
    pub media_errors: bool,
    /// `-S`: only ports that the filter names, without those below.
    pub single: bool,
    /// `-u`: sizes and addresses in units for users.
    pub human: bool,
    /// `-v`, counted.
    pub verbose: u8,
    /// `-m`
    pub memdev: Option<String>,
    /// `-s`
    pub serial: Option<String>,
    /// `-b`
    pub bus: Option<String>,
    /// `-p`
    pub port: Option<String>,
    /// `-e`
    pub endpoint: Option<String>,
    /// `-d`
    pub decoder: Option<String>,
    /// `-r`
    pub region: Option<String>,
}

/// Returns things in the order in which cxl lists them: like ndctl, it takes each before those that it found earlier.
fn as_listed<'a, T: 'a>(
    things: impl Iterator<Item = &'a T>,
    name: impl Fn(&T) -> String,
) -> impl Iterator<Item = &'a T> {
    let mut things: Vec<&T> = things.collect();
    sort_as_listed(&mut things, |thing| name(thing));
    things.into_iter()
}

impl CxlPortView {
    /// Returns the downstream ports with their positions, in the order of listings.
    pub(super) fn listed_dports(&self) -> Vec<(usize, &Dport)> {
        let mut dports: Vec<(usize, &Dport)> = self.dports.iter().enumerate().collect();
        sort_as_listed(&mut dports, |(_, dport)| format!("dport{}", dport.id));
        dports
    }

    /// Returns the kernel's name.
    pub fn name(&self) -> String {
        match self.level {
            CxlPortLevel::Root => format!("root{}", self.number),
            CxlPortLevel::Switch => format!("port{}", self.number),
            CxlPortLevel::Endpoint => format!("endpoint{}", self.number),
        }
    }

    /// Returns the provider of a bus.
    pub fn provider(&self) -> &str {
        match self.host.as_str() {
            host if host.starts_with("ACPI0017") => "ACPI.CXL",
            host if host.starts_with("cxl_acpi") => "cxl_test",
            host => host,
        }
    }
}

impl CxlInventory {
    /// Returns the port with this number.
    pub fn port(&self, number: u32) -> Option<&CxlPortView> {
        self.ports.iter().find(|port| port.number == number)
    }

    pub(super) fn roots(&self) -> impl Iterator<Item = &CxlPortView> {
        as_listed(self.ports.iter().filter(|port| port.level == CxlPortLevel::Root), CxlPortView::name)
    }

    /// Returns the devices, in the order of listings.
    pub(super) fn listed_memdevs(&self) -> impl Iterator<Item = &CxlMemdev> {
        as_listed(self.memdevs.iter(), |memdev| format!("mem{}", memdev.number))
    }

    /// Returns the ports below a port that have this level, in the order of listings.
    pub(super) fn below(&self, number: u32, level: CxlPortLevel) -> impl Iterator<Item = &CxlPortView> {
        let below = self.ports.iter().filter(move |port| port.above == Some(number) && port.level == level);
        as_listed(below, CxlPortView::name)
    }

    /// Returns a port and the ports above it, the nearest first.
    pub(super) fn ancestry<'a>(&'a self, port: &'a CxlPortView) -> impl Iterator<Item = &'a CxlPortView> {
        std::iter::successors(Some(port), |port| self.port(port.above?))
    }

    /// Returns the endpoint of a device; `None` while it is disabled.
    pub(super) fn endpoint_of(&self, memdev: u32) -> Option<&CxlPortView> {
        self.ports.iter().find(|port| port.memdev == Some(memdev))
    }

    /// Returns the position of the downstream port of `port` that leads to a device.
    pub(super) fn dport_to(&self, port: &CxlPortView, memdev: u32) -> Option<usize> {
        let endpoint = self.endpoint_of(memdev)?;
        let below = self.ancestry(endpoint).find(|one| one.above == Some(port.number))?;
        Some(below.dport)
    }
}
