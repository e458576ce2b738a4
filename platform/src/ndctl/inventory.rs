//! What there is of persistent memory, as plain data: what listings are made from, wherever it was found.
//!
//! ```text
//!   Platform (emulated)  --+
//!                          +-->  Inventory  -->  ndctl list, daxctl list
//!   Sysfs (a real kernel) -+
//! ```
//!
//! What is not known is `None`, and is left out of listings as ndctl leaves it out. Things are in no order: listings
//! sort them as ndctl does.

use crate::namespace::{MapPlace, Mode};
use std::fmt;
use uuid::Uuid;

/// Bytes of a sector as lists of bad blocks count them.
pub const SECTOR: u64 = 512;

/// What there is of persistent memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The buses that modules and regions are on.
    pub buses: Vec<NdBus>,
    /// The regions that character devices are made from.
    pub dax_regions: Vec<DaxRegion>,
}

/// Devices that one driver of the kernel found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NdBus {
    /// N of ndbusN.
    pub number: u32,
    /// Who found them: `ACPI.NFIT` for modules that firmware tells of, `e820` for RAM that stands in for them.
    pub provider: String,
    /// Whether the modules are being searched for bad blocks; none where they can't be.
    pub scrub_active: Option<bool>,
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
    /// Who it is.
    pub id: Option<String>,
    /// By what firmware calls it.
    pub handle: Option<u64>,
    /// Its number in the SMBIOS tables.
    pub physical_id: Option<u64>,
    /// Whether the kernel uses it.
    pub enabled: bool,
    /// What went wrong with it, in ndctl's words, as `flag_failed_flush`.
    pub flags: Vec<&'static str>,
    /// Whether its data can be reached, in the kernel's word.
    pub security: Option<String>,
    /// Whether that stays as it is until the next start.
    pub security_frozen: bool,
    /// How it is; none where modules don't tell.
    pub health: Option<NdHealth>,
    /// Whether it has an area for labels, written or not.
    pub has_label_area: bool,
    /// How many namespaces more its labels have room for; none where they are not written yet.
    pub free_slots: Option<u64>,
}

/// How a module is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NdHealth {
    /// It would tell, but not without root.
    Unknown,
    /// What it tells.
    Told {
        /// In ndctl's word.
        state: &'static str,
        /// Of the media, in degrees Celsius.
        media_celsius: u32,
        /// Of the controller, in degrees Celsius.
        controller_celsius: u32,
        /// How much of its life is left, in percent.
        spares_percent: u32,
        /// How often power went away before it could finish.
        dirty_shutdowns: u32,
    },
}

/// A region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NdRegion {
    /// N of regionN.
    pub number: u32,
    /// Its first physical address, which kernels tell nobody but root.
    pub base: Option<u64>,
    /// Bytes.
    pub size: Option<u64>,
    /// What namespaces in it are aligned to, in bytes.
    pub align: Option<u64>,
    /// Bytes that no namespace has.
    pub available: Option<u64>,
    /// The largest range that no namespace has, in bytes.
    pub largest_available: Option<u64>,
    /// The NUMA node that is nearest.
    pub numa_node: Option<i64>,
    /// The NUMA node that it becomes if the kernel takes it as memory.
    pub target_node: Option<i64>,
    /// Whether its modules have labels, so that namespaces can be made in it.
    pub has_labels: bool,
    /// The id of its interleave set.
    pub set_id: Option<u64>,
    /// Which parts of which modules it is made of, by position.
    pub mappings: Vec<NdMapping>,
    /// Whether the kernel uses it.
    pub enabled: bool,
    /// Whether nothing in it can be changed.
    pub read_only: bool,
    /// What power loss leaves, in ndctl's word.
    pub persistence_domain: &'static str,
    /// What can be made of namespaces in it; none where the kernel does not say.
    pub capabilities: Option<NdCapabilities>,
    /// What of it is known to be unreadable.
    pub bad_blocks: Vec<BadBlocks>,
    /// The number of the namespace that the kernel keeps for the next one to be made.
    pub seed: Option<u32>,
    /// The namespaces.
    pub namespaces: Vec<NdNamespace>,
}

/// The part of a region that is on one module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdMapping {
    /// N of nmemN.
    pub module: u32,
    /// Where on the module's media it begins, in bytes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Its position in the interleave set.
    pub position: Option<i64>,
}

/// What can be made of namespaces, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NdCapabilities {
    /// Of sectors that are atomic.
    pub sector_sizes: Vec<u64>,
    /// What mappings of file systems can be aligned to.
    pub fsdax_alignments: Vec<u64>,
    /// What mappings of character devices can be aligned to.
    pub devdax_alignments: Vec<u64>,
}

/// A range that is known to be unreadable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadBlocks {
    /// Where it begins, in sectors of [`SECTOR`] bytes.
    pub offset: u64,
    /// How many sectors.
    pub count: u64,
    /// The modules that it lies on, by number; none where that is not known.
    pub modules: Vec<u32>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NdNamespace {
    /// X of namespaceX.Y, the number of its region.
    pub region: u32,
    /// Y of namespaceX.Y.
    pub number: u32,
    /// What is made of it.
    pub personality: NdPersonality,
    /// Bytes that its user gets.
    pub size: Option<u64>,
    /// Bytes, those that are kept for its own purposes included; 0 if it is still to be made.
    pub span: Option<u64>,
    /// Who it is; none where it has no labels.
    pub uuid: Option<Uuid>,
    /// Bytes of a sector; none where it has none.
    pub sector_size: Option<u64>,
    /// The name of its block device.
    pub block_device: Option<String>,
    /// What its user called it.
    pub name: String,
    /// Whether the kernel uses it.
    pub enabled: bool,
    /// The NUMA node that is nearest.
    pub numa_node: Option<i64>,
    /// The NUMA node that it becomes if the kernel takes it as memory.
    pub target_node: Option<i64>,
    /// Where in physical memory begins what of it is data, and how many bytes that are; all of it where sectors are
    /// atomic. Kernels tell this nobody but root.
    pub place: Option<(u64, u64)>,
    /// What its block device is known not to read.
    pub bad_blocks: Vec<BadBlocks>,
}

/// What is made of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NdPersonality {
    /// Nothing.
    Raw,
    /// A block device with a page map in DRAM, by itself.
    Legacy,
    /// A block device with a page map.
    Fsdax(NdPageMap),
    /// A character device.
    Devdax(NdPageMap, Option<DaxRegion>),
    /// A block device with atomic sectors.
    Sector {
        /// Who that is.
        uuid: Uuid,
    },
}

/// A page map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdPageMap {
    /// Who it is.
    pub uuid: Uuid,
    /// Where it is; none where nobody chose.
    pub place: Option<MapPlace>,
    /// What mappings are aligned to, in bytes.
    pub align: Option<u64>,
}

/// What character devices are made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaxRegion {
    /// Its number.
    pub number: u32,
    /// Where it is in the kernel's tree of devices.
    pub path: Option<String>,
    /// Bytes.
    pub size: Option<u64>,
    /// Bytes that no device has.
    pub available: Option<u64>,
    /// What devices are aligned to, in bytes.
    pub align: Option<u64>,
    /// The devices.
    pub devices: Vec<DaxDevice>,
}

/// A character device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaxDevice {
    /// As `dax0.1`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// The NUMA node that it becomes if the kernel takes it as memory.
    pub target_node: Option<i64>,
    /// What mappings are aligned to, in bytes.
    pub align: Option<u64>,
    /// Whether it is a device that is mapped, or memory that the kernel gives out; none where daxctl is too old to ask.
    pub mode: Option<DaxMode>,
    /// Whether a driver has it.
    pub enabled: bool,
}

/// What a character device is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaxMode {
    /// It is mapped.
    Devdax,
    /// The kernel gives it out as memory.
    SystemRam,
}

impl DaxMode {
    /// daxctl's word.
    pub fn word(self) -> &'static str {
        match self {
            DaxMode::Devdax => "devdax",
            DaxMode::SystemRam => "system-ram",
        }
    }
}

impl NdNamespace {
    /// A namespace of which nothing is known.
    pub fn bare(region: u32, number: u32) -> NdNamespace {
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
            bad_blocks: Vec::new(),
        }
    }

    /// What is made of it.
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
    /// All modules, in the order of their numbers.
    pub fn modules(&self) -> Vec<&NdModule> {
        let mut modules: Vec<&NdModule> = self.buses.iter().flat_map(|bus| &bus.modules).collect();
        modules.sort_by_key(|module| module.number);
        modules
    }

    /// All regions, in the order of their numbers.
    pub fn regions(&self) -> Vec<&NdRegion> {
        let mut regions: Vec<&NdRegion> = self.buses.iter().flat_map(|bus| &bus.regions).collect();
        regions.sort_by_key(|region| region.number);
        regions
    }
}
