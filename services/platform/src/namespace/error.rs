//! Errors of regions, namespaces and their labels.

use super::mode::Mode;
use crate::dax::DeviceId;
use crate::machine::{Handle, ModuleError};
use lode_nvdimm::{InfoBlockError, LabelError};
use thiserror::Error;
use uuid::Uuid;

/// A region or a namespace does not exist, or can't be changed as requested.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The region does not exist.
    #[error("there is no region{region}")]
    UnknownRegion {
        /// Its number.
        region: u32,
    },
    /// The namespace does not exist.
    #[error("there is no namespace {name}")]
    UnknownNamespace {
        /// The name that was given.
        name: String,
    },
    /// The region is disabled, or one of its modules is dead or locked.
    #[error("region{region} is disabled; enable it first")]
    RegionDisabled {
        /// Its number.
        region: u32,
    },
    /// A module of the region is disabled, so the region can't be enabled.
    #[error("region{region} stays disabled: its module {module} is disabled; enable the module first")]
    ModuleDisabled {
        /// The region's number.
        region: u32,
        /// The module.
        module: Handle,
    },
    /// The namespace is disabled, so it has no device.
    #[error("{name} is disabled; enable it first")]
    NamespaceDisabled {
        /// Its name.
        name: String,
    },
    /// The region is active, so the labels of its modules can't be changed.
    #[error("module {module} is part of region{region}, which is in use; disable the region first")]
    RegionActive {
        /// Its number.
        region: u32,
        /// The module.
        module: Handle,
    },
    /// The region has no labels: all of it is one namespace.
    #[error(
        "region{region} has no labels, so it is one namespace that stays as it is; where modules have label areas, \
         initialize their labels"
    )]
    NoLabels {
        /// Its number.
        region: u32,
    },
    /// The region is CXL memory: images and moves of data are of modules.
    #[error(
        "region{region} is CXL memory, and this takes modules of firmware's table only; choose a region on the bus \
         ACPI.NFIT"
    )]
    OfCxl {
        /// Its number.
        region: u32,
    },
    /// The region has no labels that could divide it.
    #[error("region{region} has no labels, so its namespace has its size; leave the size out")]
    Undivided {
        /// Its number.
        region: u32,
    },
    /// Labels for a region would change another active region with the same module.
    #[error(
        "region{region} gets no labels: its module {module} is also part of region{other}, which is in use; disable \
         that region first, or go on without labels"
    )]
    Autolabel {
        /// The region's number.
        region: u32,
        /// The module.
        module: Handle,
        /// Number of the other region.
        other: u32,
    },
    /// The region's label areas have no free slot for another namespace.
    #[error("the labels of region{region} have no room for another namespace; destroy one first")]
    NoSlots {
        /// Its number.
        region: u32,
    },
    /// The namespace is active.
    #[error("{name} is in use; disable it first, or force the change")]
    NamespaceActive {
        /// Its name.
        name: String,
    },
    /// The kernel uses the namespace as memory.
    #[error("{device} is busy: the kernel uses its memory, which is online; take the memory offline first")]
    MemoryOnline {
        /// The character device of the namespace.
        device: DeviceId,
    },
    /// No free range is large enough.
    #[error("{want} bytes are not free in {}: the largest free range has {largest}", place(*region))]
    NoSpace {
        /// The region; `None` if all regions were tried.
        region: Option<u32>,
        /// Bytes that are required.
        want: u64,
        /// The largest free range in bytes.
        largest: u64,
    },
    /// The size is not a multiple of the unit.
    #[error("{size} bytes over {ways} modules are not a multiple of {unit} bytes; {fitting} bytes are")]
    Misaligned {
        /// The size in bytes.
        size: u64,
        /// Number of modules over which the region is interleaved.
        ways: u64,
        /// The unit in bytes.
        unit: u64,
        /// The next valid size.
        fitting: u64,
    },
    /// The alignment is invalid for page maps, or the namespace has no page map.
    #[error("{}", alignment(*align, *mode))]
    Align {
        /// The alignment in bytes.
        align: u64,
        /// Mode of the namespace.
        mode: Mode,
    },
    /// The namespace is smaller than the kernel's minimum.
    #[error("a namespace of {size} bytes is too small: this mode takes {size_min} and more")]
    TooSmall {
        /// Its size in bytes.
        size: u64,
        /// The kernel's minimum in bytes.
        size_min: u64,
    },
    /// The sector size is not supported.
    #[error(
        "sectors can't have {size} bytes: those of mode sector have 512, 520, 528, 4096, 4104, 4160 or 4224, \
         others 512 or 4096"
    )]
    SectorSize {
        /// The size in bytes.
        size: u64,
    },
    /// The UUID belongs to another namespace.
    #[error("there is a namespace {uuid} already")]
    UuidExists {
        /// The UUID.
        uuid: Uuid,
    },
    /// The page map or BTT does not fit the namespace.
    #[error("a namespace of {size} bytes can't be that: {error}")]
    Info {
        /// The size of the namespace in bytes.
        size: u64,
        /// The reason.
        #[source]
        error: InfoBlockError,
    },
    /// The label area of a module can't be used, or has no space.
    #[error("the labels of module {module}: {error}")]
    Labels {
        /// The module.
        module: Handle,
        /// The reason.
        #[source]
        error: LabelError,
    },
    /// The label area of a CXL device can't be read.
    #[error(
        "the label area of module {module} can't be read: its file in the state directory is damaged; correct that, or remove \
         it to lose the labels"
    )]
    UnreadableLabels {
        /// The module.
        module: Handle,
    },
    /// The label area already holds labels.
    #[error("module {module} has labels already; to initialize them again is to lose its namespaces")]
    LabelsExist {
        /// The module.
        module: Handle,
    },
    /// The length is not that of the label area.
    #[error("the label area of module {module} has {size} bytes, not {found}")]
    LabelAreaSize {
        /// The module.
        module: Handle,
        /// Bytes of the area.
        size: u64,
        /// Bytes that were given.
        found: u64,
    },
    /// The label area does not have the requested part.
    #[error(
        "the label area of module {module} has {size} bytes, so there are no {len} from {off} on; choose a smaller \
         size or offset"
    )]
    LabelExtent {
        /// The module.
        module: Handle,
        /// Bytes of the area.
        size: u64,
        /// Offset of the part in bytes.
        off: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// The module does not exist, or can't be used.
    #[error(transparent)]
    Module(#[from] ModuleError),
}

impl NamespaceError {
    /// Returns true if the region can't take a new namespace, while another region may take it.
    pub fn is_of_region(&self) -> bool {
        use NamespaceError::{Labels, NoLabels, NoSpace, RegionDisabled};
        let unlabelled = LabelError::Blank;
        match self {
            NoSpace { .. } | RegionDisabled { .. } | NoLabels { .. } => true,
            Labels { error, .. } => *error == unlabelled || matches!(error, LabelError::NoIndex { .. }),
            _ => false,
        }
    }
}

fn place(region: Option<u32>) -> String {
    region.map_or("any region".to_owned(), |region| format!("region{region}"))
}

fn alignment(align: u64, mode: Mode) -> String {
    match mode {
        Mode::Sector | Mode::Raw => {
            format!("mode {} has no page map that could be aligned: leave the alignment out", mode.as_str())
        }
        Mode::Fsdax | Mode::Devdax => {
            format!("page maps can be aligned to 4K, 2M or 1G, not to {align} bytes")
        }
    }
}
