//! Faults of an image, or of the source of one.

use super::format::ImageFormat;
use super::layout::ImageLayout;
use lode_nvdimm::{LabelDamage, LabelError};
use std::ops::Range;
use thiserror::Error;
use uuid::Uuid;

/// Fault of an image, or of the source of one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ImageErrorKind {
    /// The file already exists.
    #[error("it is there already; remove it, or choose another name")]
    Exists,
    /// The path is a folder, a pipe or a device.
    #[error("it is no regular file, as images are")]
    NoFile,
    /// The length is not that of an image.
    #[error(
        "an image does not have {len} bytes: it has a multiple of {} MiB, and behind that a label area of {} KiB or \
         more; was it cut off?",
        ImageLayout::DATA_UNIT >> 20,
        ImageLayout::LABELS_MIN >> 10
    )]
    Length {
        /// Length in bytes.
        len: u64,
    },
    /// The label area can't be read.
    #[error(
        "the label area at {off:#x}: {error}; was the file cut off? If the area lies elsewhere, set its size"
    )]
    Labels {
        /// Offset of the area in the file, in bytes.
        off: u64,
        /// The reason.
        error: LabelError,
    },
    /// A used slot of the label area holds no intact label.
    #[error("the label in slot {slot}: {damage}")]
    TornLabel {
        /// The slot.
        slot: u32,
        /// The damage.
        damage: LabelDamage,
    },
    /// Two labels overlap in the data.
    #[error("the labels in the slots {} and {} overlap", slots.0, slots.1)]
    OverlappingLabels {
        /// Their slots.
        slots: (u32, u32),
    },
    /// Two labels have the UUID of one namespace that can have only one.
    #[error("the labels in the slots {} and {} are both of namespace {uuid}", slots.0, slots.1)]
    DuplicateLabels {
        /// Their slots.
        slots: (u32, u32),
        /// The namespace.
        uuid: Uuid,
    },
    /// A label has size 0.
    #[error("the label in slot {slot} is of 0 bytes")]
    EmptyLabel {
        /// The slot.
        slot: u32,
    },
    /// The labels of a namespace were not completely written.
    #[error(
        "the labels of namespace {uuid} are half-written: boot the image again and make the namespace anew"
    )]
    HalfWritten {
        /// The namespace.
        uuid: Uuid,
    },
    /// The label belongs to an interleave set that is neither QEMU's nor the machine's.
    #[error(
        "the label in slot {slot} is of an interleave set {cookie:#x}, which is neither QEMU's nor one of this \
         machine's"
    )]
    ForeignLabel {
        /// The slot of the label area.
        slot: u32,
        /// Set cookie of the label.
        cookie: u64,
    },
    /// The label is of a namespace in a set with other modules, and QEMU's sets have one module.
    #[error(
        "the label in slot {slot} is for position {position} of {count} modules, and QEMU's sets have one module"
    )]
    OtherMembers {
        /// The slot of the label area.
        slot: u32,
        /// Position of the module in the set.
        position: u16,
        /// Number of modules of the set.
        count: u16,
    },
    /// A namespace extends past the data.
    #[error("namespace {uuid} ends at {end:#x}, behind the {len:#x} bytes that there are")]
    BeyondEnd {
        /// The namespace.
        uuid: Uuid,
        /// Offset of its end, in bytes.
        end: u64,
        /// Bytes of valid data.
        len: u64,
    },
    /// A guest wrote to the padding of an image without labels.
    #[error(
        "there is data at {off:#x}, in the padding of the image: only {:#x} to {:#x} come back. Was the file system made for \
         the whole image?",
        range.start,
        range.end
    )]
    DataInPadding {
        /// Offset of the data in the image, in bytes.
        off: u64,
        /// The range of the image that is imported.
        range: Range<u64>,
    },
    /// A namespace can't be distributed evenly over the modules of a region.
    #[error(
        "namespace {uuid} of {size:#x} bytes at {start:#x} can't be spread over the modules: both must be multiples of \
         {unit:#x}"
    )]
    Misaligned {
        /// The namespace.
        uuid: Uuid,
        /// Offset of the namespace, in bytes.
        start: u64,
        /// Size in bytes.
        size: u64,
        /// The required alignment of both, in bytes.
        unit: u64,
    },
    /// No label of the image identifies its origin.
    #[error(
        "no label in it tells where it came from; unless it was cut off, name the region, namespace or module to import \
         it into"
    )]
    NoOrigin,
    /// The length of the image is not that of the destination's image.
    #[error("an image of {into} has {want} bytes, this one {found}")]
    Size {
        /// Name of the destination.
        into: String,
        /// Length of the destination's image in bytes.
        want: u64,
        /// Length of this image in bytes.
        found: u64,
    },
    /// The image has no labels, and the destination has.
    #[error("it has no labels, and {into} has: nothing tells which namespaces are in it")]
    NoLabels {
        /// Name of the destination.
        into: String,
    },
    /// The name is not that of a region, a namespace or a module.
    #[error(
        "{name} is neither a region as region0, a namespace as namespace0.0 nor a module as nmem0 or 0x0001"
    )]
    UnknownSource {
        /// The name that was given.
        name: String,
    },
    /// The object can't be exported in this format.
    #[error("no image for {format} can be made of {name}: {}", format.sources())]
    Format {
        /// The name that was given.
        name: String,
        /// The form.
        format: ImageFormat,
    },
    /// The data of the region is in another machine's DRAM, not in the directory.
    #[error("region{region} is DRAM of the machine that it was described after: its data is not here")]
    NoData {
        /// The number of the region.
        region: u32,
    },
    /// The BTT marks a sector as unreadable.
    #[error("{name}: its table says that sector {sector} can't be read")]
    LostSector {
        /// The namespace.
        name: String,
        /// The number of the sector.
        sector: u64,
    },
}
