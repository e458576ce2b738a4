//! Devices in the state of a machine.

use serde::{Deserialize, Serialize};

/// A device that differs from the one that the kernel makes at a start. If a state has one of a divided region, it has
/// all of that region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredDevice {
    /// X of daxX.Y, the number of its region.
    pub region: u32,
    /// Y of daxX.Y.
    pub number: u32,
    /// The driver that is bound to it.
    pub driver: Driver,
    /// Zone of its memory; `None` while the memory is offline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<MemoryZone>,
    /// Alignment of mappings in bytes; `None` for the device of a namespace, which has that of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<u64>,
    /// Its ranges in the order of its pages; empty for the device of a namespace, which is all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<StoredRange>,
}

/// A range of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredRange {
    /// Offset from the start of the region, in bytes.
    pub off: u64,
    /// Length in bytes.
    pub len: u64,
}

/// The driver of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// No driver: the device is disabled.
    None,
    /// Applications map the device.
    Devdax,
    /// The kernel uses the device as memory.
    SystemRam,
}

/// The kernel's zone of memory that is online.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryZone {
    /// Pages of applications, which the kernel can move away.
    Movable,
    /// Any pages.
    Normal,
}
