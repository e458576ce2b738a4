//! CXL memory in the state of a machine.

use serde::{Deserialize, Serialize};
use std::ops::Range;
use uuid::Uuid;

/// Differences from the CXL memory that the kernel finds at a start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CxlState {
    /// Number of the next region of each window; empty before the first region is made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next_regions: Vec<u32>,
    /// Numbers of the devices that were disabled since the last start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled_devices: Vec<u32>,
    /// Numbers of the ports of host bridges that were disabled since the last start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled_ports: Vec<u32>,
    /// The regions, in the order in which they were made.
    #[serde(rename = "region", default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<StoredCxlRegion>,
    /// Memory of devices that decoders hold, in the order in which they took it.
    #[serde(rename = "allocation", default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<Allocation>,
    /// Devices whose capacity is divided otherwise than in the machine file. They stay so after a start.
    #[serde(rename = "partition", default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<CxlPartition>,
    /// The poison lists of devices, in the order of devices and addresses. They stay so after a start.
    #[serde(rename = "poison", default, skip_serializing_if = "Vec::is_empty")]
    pub poison: Vec<CxlPoison>,
}

/// Kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CxlKind {
    /// Volatile memory.
    Ram,
    /// Persistent memory.
    Pmem,
}

/// A region of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredCxlRegion {
    /// N of regionN.
    pub number: u32,
    /// Number of its window.
    pub window: u32,
    /// Its UUID.
    pub uuid: Uuid,
    /// Kind of its memory.
    pub kind: CxlKind,
    /// Offset from the start of the window, in bytes.
    pub off: u64,
    /// Size in bytes.
    pub size: u64,
    /// Bytes on one device before it continues on the next one.
    pub granularity: u64,
    /// Numbers of the devices, by their position.
    pub devices: Vec<u32>,
    /// True if the decoders of all ports have it. A device that is disabled by force takes them away.
    pub committed: bool,
    /// True if the kernel uses it.
    pub enabled: bool,
}

/// Memory of a device that a decoder holds. The n-th of a device has its n-th decoder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allocation {
    /// Number of the device.
    pub device: u32,
    /// Kind of the memory.
    pub kind: CxlKind,
    /// First address on the device (DPA).
    pub off: u64,
    /// Length in bytes.
    pub len: u64,
    /// Number of the region that maps it; `None` while it is only reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<u32>,
}

/// Division of the capacity of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CxlPartition {
    /// Number of the device.
    pub device: u32,
    /// Bytes of volatile memory. The rest of the capacity is persistent.
    pub volatile: u64,
    /// Bytes of volatile memory after the next start.
    pub next_volatile: u64,
}

/// A record of a device's poison list: a line of [`LEN`](CxlPoison::LEN) bytes that can't be read until it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CxlPoison {
    /// Number of the device.
    pub device: u32,
    /// Its address on the device (DPA).
    pub off: u64,
}

impl CxlPoison {
    /// Bytes of a line.
    pub const LEN: u64 = 64;
}

impl CxlState {
    /// Returns true if nothing differs.
    pub(crate) fn is_initial(&self) -> bool {
        self == &CxlState::default()
    }

    /// Starts the machine: the kernel finds no region, divisions of capacity take effect, and poison stays.
    pub(crate) fn start(&mut self) {
        let mut partitions = std::mem::take(&mut self.partitions);
        partitions.iter_mut().for_each(|one| one.volatile = one.next_volatile);
        let poison = std::mem::take(&mut self.poison);
        *self = CxlState { partitions, poison, ..CxlState::default() };
    }

    /// Returns the memory that decoders of a device hold, in the order of the decoders.
    pub(crate) fn allocations_of(&self, device: u32) -> impl DoubleEndedIterator<Item = &Allocation> {
        self.allocations.iter().filter(move |one| one.device == device)
    }

    /// Returns the poisoned addresses of a device that are in a range of it.
    pub(crate) fn poison_in(&self, device: u32, range: Range<u64>) -> impl Iterator<Item = u64> {
        let of_device = self.poison.iter().filter(move |one| one.device == device);
        of_device.map(|one| one.off).filter(move |off| range.contains(off))
    }

    /// Removes the poison of the lines that a write to a range of a device replaces as a whole.
    pub(crate) fn clear_poison(&mut self, device: u32, range: &Range<u64>) {
        let is_replaced = |one: &CxlPoison| {
            one.device == device && range.start <= one.off && one.off + CxlPoison::LEN <= range.end
        };
        self.poison.retain(|one| !is_replaced(one));
    }

    /// Returns the region with this number.
    pub(crate) fn region(&self, number: u32) -> Option<&StoredCxlRegion> {
        self.regions.iter().find(|region| region.number == number)
    }
}

impl CxlKind {
    /// Returns the word of the kernel and of cxl.
    pub fn as_str(self) -> &'static str {
        match self {
            CxlKind::Ram => "ram",
            CxlKind::Pmem => "pmem",
        }
    }
}
