//! Inventory of persistent memory as plain data, from which listings are printed.
//!
//! ```text
//!   Platform (emulated)  --+
//!                          +-->  Inventory  -->  ndctl list, daxctl list
//!   Sysfs (a real kernel) -+
//! ```
//!
//! `None` stands for an unknown value, which listings leave out like ndctl. The objects are unordered: listings sort
//! them like ndctl.

use crate::firmware::ActivationState;
use crate::machine::FirmwareActivation;
use crate::namespace::{MapLocation, Mode};
use crate::smart::SmartReport;
use std::fmt;
use uuid::Uuid;

/// Sector size in bytes of lists of bad blocks.
pub const SECTOR: u64 = 512;

/// Inventory of persistent memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The buses of modules and regions.
    pub buses: Vec<NdBus>,
    /// The regions of character devices (device DAX).
    pub dax_regions: Vec<DaxRegion>,
}

/// Devices that one kernel driver found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NdBus {
    /// N of ndbusN.
    pub number: u32,
    /// Provider: `ACPI.NFIT` for modules in firmware's tables, `e820` for RAM that emulates persistent memory.
    pub provider: String,
    /// True while a scrub for bad blocks runs; `None` if the bus has no scrub.
    pub scrub_active: Option<bool>,
    /// Activation of firmware; `None` if no module of the bus is known to take updates.
    pub firmware: Option<NdActivation>,
    /// The modules.
    pub modules: Vec<NdModule>,
    /// The regions.
    pub regions: Vec<NdRegion>,
}

/// A module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NdModule {
    /// N of nmemN.
    pub number: u32,
    /// Unique id.
    pub id: Option<String>,
    /// NFIT device handle.
    pub handle: Option<u64>,
    /// Its number in the SMBIOS tables.
    pub physical_id: Option<u64>,
    /// True if the kernel uses it.
    pub enabled: bool,
    /// Failures, in ndctl's words, as `flag_failed_flush`.
    pub flags: Vec<&'static str>,
    /// Security state, in the kernel's word.
    pub security: Option<String>,
    /// True if the security state can't be changed until the next reboot.
    pub security_frozen: bool,
    /// Firmware; `None` if the module does not report it, or only to root.
    pub firmware: Option<NdFirmware>,
    /// Health; `None` if the module has no health report.
    pub health: Option<NdHealth>,
    /// True if it has a label area, written or blank.
    pub has_label_area: bool,
    /// Number of further namespaces that the labels have room for; `None` if the area is blank.
    pub free_slots: Option<u64>,
}

/// Firmware of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdFirmware {
    /// The module does not answer.
    Unknown,
    /// The report of the module.
    Known {
        /// Version that runs: two digits in each byte, the last four of the build.
        version: u64,
        /// True if the firmware can be updated; `None` if the version of ndctl does not show it.
        can_update: Option<bool>,
        /// The staged version.
        next: Option<NdNextFirmware>,
    },
}

/// Staged firmware of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdNextFirmware {
    /// Its version, as that which runs.
    pub version: u64,
    /// State of its activation; `None` if the platform activates firmware at a start only.
    pub state: Option<ActivationState>,
}

/// Activation of the firmware of a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdActivation {
    /// The way in which the platform activates firmware.
    pub method: FirmwareActivation,
    /// State of the activation; `None` if the platform activates firmware at a start only.
    pub state: Option<ActivationState>,
}

/// Health of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NdHealth {
    /// Only root may read the report.
    Unknown,
    /// The health report.
    Known(SmartReport),
}

/// A region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NdRegion {
    /// N of regionN.
    pub number: u32,
    /// First physical address, which kernels show only to root.
    pub base: Option<u64>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Alignment of its namespaces, in bytes.
    pub align: Option<u64>,
    /// Bytes without a namespace.
    pub available: Option<u64>,
    /// The largest free range, in bytes.
    pub largest_available: Option<u64>,
    /// The nearest NUMA node.
    pub numa_node: Option<i64>,
    /// NUMA node of the region if the kernel uses it as memory.
    pub target_node: Option<i64>,
    /// True if its modules have labels, which new namespaces need.
    pub has_labels: bool,
    /// The id of its interleave set.
    pub set_id: Option<u64>,
    /// Bytes on one module before the region continues on the next one; `None` if the kernel does not show it.
    pub line: Option<u64>,
    /// Its parts on modules, by position.
    pub mappings: Vec<NdMapping>,
    /// True if the kernel uses it.
    pub enabled: bool,
    /// True if it is read-only.
    pub read_only: bool,
    /// Persistence domain, in ndctl's word.
    pub persistence_domain: &'static str,
    /// Supported parameters of its namespaces; `None` if the kernel does not show them.
    pub capabilities: Option<NdCapabilities>,
    /// Known unreadable ranges.
    pub bad_blocks: Vec<BadBlocks>,
    /// Number of its seed, the idle namespace that the kernel keeps for the next request.
    pub seed: Option<u32>,
    /// The namespaces.
    pub namespaces: Vec<NdNamespace>,
}

/// The part of a region that is on one module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdMapping {
    /// N of nmemN.
    pub module: u32,
    /// Offset of the part on the module's media, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Its position in the interleave set.
    pub position: Option<i64>,
}

/// Supported parameters of namespaces, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NdCapabilities {
    /// Sector sizes of BTTs.
    pub sector_sizes: Vec<u64>,
    /// Alignments in fsdax mode.
    pub fsdax_alignments: Vec<u64>,
    /// Alignments in devdax mode.
    pub devdax_alignments: Vec<u64>,
}

/// A known unreadable range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadBlocks {
    /// Offset in sectors of [`SECTOR`] bytes.
    pub offset: u64,
    /// Number of sectors.
    pub count: u64,
    /// Numbers of the modules that hold the range; empty if unknown.
    pub modules: Vec<u32>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NdNamespace {
    /// X of namespaceX.Y, the number of its region.
    pub region: u32,
    /// Y of namespaceX.Y.
    pub number: u32,
    /// Use of the namespace.
    pub personality: NdPersonality,
    /// Bytes that are available to its user.
    pub size: Option<u64>,
    /// Size in bytes, including page map and BTT metadata; 0 for an idle namespace.
    pub span: Option<u64>,
    /// UUID; `None` without labels.
    pub uuid: Option<Uuid>,
    /// Sector size in bytes; `None` for a character device.
    pub sector_size: Option<u64>,
    /// The name of its block device.
    pub block_device: Option<String>,
    /// The user's name.
    pub name: String,
    /// True if the kernel uses it.
    pub enabled: bool,
    /// The nearest NUMA node.
    pub numa_node: Option<i64>,
    /// NUMA node of the namespace if the kernel uses it as memory.
    pub target_node: Option<i64>,
    /// Physical address and length of its data, which only root may read. In sector mode the range is the whole
    /// namespace.
    pub place: Option<(u64, u64)>,
    /// Physical address of the namespace, which only root may read.
    pub base: Option<u64>,
    /// Known unreadable ranges of its block device.
    pub bad_blocks: Vec<BadBlocks>,
}

/// Use of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NdPersonality {
    /// A block device without page map and BTT.
    Raw,
    /// A block device with a page map in DRAM and without info block.
    Legacy,
    /// A block device with a page map.
    Fsdax(NdPageMap),
    /// A character device with a page map.
    Devdax(NdPageMap, Option<DaxRegion>),
    /// A block device with a BTT.
    Sector {
        /// UUID of the BTT.
        uuid: Uuid,
    },
}

/// A page map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdPageMap {
    /// UUID of the page map.
    pub uuid: Uuid,
    /// Place of the page map; `None` if none was chosen.
    pub location: Option<MapLocation>,
    /// Alignment of mappings, in bytes.
    pub align: Option<u64>,
}

/// Region of character devices (device DAX).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaxRegion {
    /// Its number.
    pub number: u32,
    /// Path in the kernel's device tree.
    pub path: Option<String>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Bytes without a device.
    pub available: Option<u64>,
    /// Alignment of devices, in bytes.
    pub align: Option<u64>,
    /// The devices.
    pub devices: Vec<DaxDevice>,
}

/// A character device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaxDevice {
    /// Name, as `dax0.1`.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// NUMA node of the device if the kernel uses it as memory.
    pub target_node: Option<i64>,
    /// Alignment of mappings, in bytes.
    pub align: Option<u64>,
    /// Use of the device; `None` if the version of daxctl does not show it.
    pub mode: Option<DaxMode>,
    /// Its memory, if the kernel uses it as such; `None` if it does not, or if that is not known.
    pub memory: Option<DaxMemory>,
    /// Its ranges of addresses, in the order of its pages. Only root may read them.
    pub mappings: Vec<DaxMapping>,
    /// True if a driver is bound to it.
    pub enabled: bool,
}

/// Memory of a character device, in memory blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaxMemory {
    /// Number of blocks that are online.
    pub online: u64,
    /// Number of blocks.
    pub total: u64,
    /// True if the pages are movable; `None` unless all blocks are online.
    pub movable: Option<bool>,
}

/// A range of addresses of a character device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaxMapping {
    /// Number of the device's pages before it.
    pub page_off: u64,
    /// First physical address.
    pub start: u64,
    /// Last physical address.
    pub last: u64,
}

/// Use of a character device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaxMode {
    /// Mapped by applications.
    Devdax,
    /// Used by the kernel as memory.
    SystemRam,
}

impl DaxMode {
    /// Returns daxctl's word.
    pub fn as_str(self) -> &'static str {
        match self {
            DaxMode::Devdax => "devdax",
            DaxMode::SystemRam => "system-ram",
        }
    }
}

impl NdNamespace {
    /// Returns a namespace with a name and no other values.
    pub fn new(region: u32, number: u32) -> NdNamespace {
        NdNamespace {
            region,
            number,
            personality: NdPersonality::Raw,
            size: None,
            span: None,
            uuid: None,
            sector_size: None,
            block_device: None,
            name: String::new(),
            enabled: true,
            numa_node: None,
            target_node: None,
            place: None,
            base: None,
            bad_blocks: Vec::new(),
        }
    }

    /// Returns the mode.
    pub fn mode(&self) -> Mode {
        match self.personality {
            NdPersonality::Raw => Mode::Raw,
            NdPersonality::Legacy | NdPersonality::Fsdax(_) => Mode::Fsdax,
            NdPersonality::Devdax(..) => Mode::Devdax,
            NdPersonality::Sector { .. } => Mode::Sector,
        }
    }
}

impl fmt::Display for NdNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "namespace{}.{}", self.region, self.number)
    }
}

impl Inventory {
    /// Returns all modules, in the order of their numbers.
    pub fn modules(&self) -> Vec<&NdModule> {
        let mut modules: Vec<&NdModule> = self.buses.iter().flat_map(|bus| &bus.modules).collect();
        modules.sort_by_key(|module| module.number);
        modules
    }

    /// Returns all regions, in the order of their numbers.
    pub fn regions(&self) -> Vec<&NdRegion> {
        let mut regions: Vec<&NdRegion> = self.buses.iter().flat_map(|bus| &bus.regions).collect();
        regions.sort_by_key(|region| region.number);
        regions
    }
}
