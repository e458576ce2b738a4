//! Faults of an image, or of the source of one.

use super::{ImageForm, Shape};
use lode_nvdimm::{LabelDamage, LabelError};
use std::fmt;
use uuid::Uuid;

/// Fault of an image, or of the source of one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageFault {
    /// The file already exists.
    Exists,
    /// The path is a folder, a pipe or a device.
    NoFile,
    /// The length is not that of an image.
    Length {
        /// Length in bytes.
        len: u64,
    },
    /// The label area can't be read.
    Labels {
        /// Offset of the area in the file, in bytes.
        off: u64,
        /// The reason.
        error: LabelError,
    },
    /// A used slot of the label area holds no intact label.
    TornLabel {
        /// The slot.
        slot: u32,
        /// The damage.
        damage: LabelDamage,
    },
    /// Two labels overlap in the data.
    OverlappingLabels {
        /// Their slots.
        slots: (u32, u32),
    },
    /// Two labels have the UUID of one namespace that can have only one.
    TwinLabels {
        /// Their slots.
        slots: (u32, u32),
        /// The namespace.
        uuid: Uuid,
    },
    /// A label has size 0.
    EmptyLabel {
        /// The slot.
        slot: u32,
    },
    /// The labels of a namespace were not completely written.
    HalfWritten {
        /// The namespace.
        uuid: Uuid,
    },
    /// The label belongs to an interleave set that is neither QEMU's nor the machine's.
    ForeignLabel {
        /// The slot of the label area.
        slot: u32,
        /// Set cookie of the label.
        cookie: u64,
    },
    /// A namespace extends past the data.
    Behind {
        /// The namespace.
        uuid: Uuid,
        /// Offset of its end, in bytes.
        end: u64,
        /// Bytes of valid data.
        len: u64,
    },
    /// A namespace can't be distributed evenly over the modules of a region.
    Uneven {
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
    NoOrigin,
    /// The length of the image is not that of the destination's image.
    Size {
        /// Name of the destination.
        into: String,
        /// Length of the destination's image in bytes.
        want: u64,
        /// Length of this image in bytes.
        found: u64,
    },
    /// The image has no labels, and the destination has.
    NoLabels {
        /// Name of the destination.
        into: String,
    },
    /// The name is not that of a region, a namespace or a module.
    UnknownSource {
        /// The name that was given.
        name: String,
    },
    /// The object can't be exported in this form.
    Form {
        /// The name that was given.
        name: String,
        /// The form.
        form: ImageForm,
    },
    /// The data of the region is in another machine's DRAM, not in the directory.
    NoData {
        /// The number of the region.
        region: u32,
    },
    /// The BTT marks a sector as unreadable.
    LostSector {
        /// The namespace.
        name: String,
        /// The number of the sector.
        sector: u64,
    },
}

impl fmt::Display for ImageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageFault::Exists => f.write_str("it is there already; remove it, or choose another name"),
            ImageFault::NoFile => f.write_str("it is no regular file, as images are"),
            ImageFault::Length { len } => write!(
                f,
                "an image does not have {len} bytes: it has a multiple of {} MiB, and behind that a label area of \
                 {} KiB or more; was it cut off?",
                Shape::DATA_UNIT >> 20,
                Shape::LABELS_MIN >> 10
            ),
            ImageFault::Labels { off, error } => write!(
                f,
                "the label area at {off:#x}: {error}; if it lies elsewhere, say --label-size; was the file cut off?"
            ),
            ImageFault::TornLabel { slot, damage } => write!(f, "the label in slot {slot}: {damage}"),
            ImageFault::OverlappingLabels { slots: (one, other) } => {
                write!(f, "the labels in the slots {one} and {other} overlap")
            }
            ImageFault::TwinLabels { slots: (one, other), uuid } => {
                write!(f, "the labels in the slots {one} and {other} are both of namespace {uuid}")
            }
            ImageFault::EmptyLabel { slot } => write!(f, "the label in slot {slot} is of 0 bytes"),
            ImageFault::HalfWritten { uuid } => write!(
                f,
                "the labels of namespace {uuid} are half-written: boot the image again and make the namespace anew"
            ),
            ImageFault::ForeignLabel { slot, cookie } => write!(
                f,
                "the label in slot {slot} is of an interleave set {cookie:#x}, which is neither QEMU's nor one of \
                 this machine's"
            ),
            ImageFault::Behind { uuid, end, len } => {
                write!(f, "namespace {uuid} ends at {end:#x}, behind the {len:#x} bytes that there are")
            }
            ImageFault::Uneven { uuid, start, size, unit } => write!(
                f,
                "namespace {uuid} of {size:#x} bytes at {start:#x} can't be spread over the modules: both must be \
                 multiples of {unit:#x}"
            ),
            ImageFault::NoOrigin => {
                f.write_str(
                    "no label in it tells where it came from; unless it was cut off, say --into REGION, NAMESPACE or DIMM",
                )
            }
            ImageFault::Size { into, want, found } => {
                write!(f, "an image of {into} has {want} bytes, this one {found}")
            }
            ImageFault::NoLabels { into } => {
                write!(f, "it has no labels, and {into} has: nothing tells which namespaces are in it")
            }
            ImageFault::UnknownSource { name } => write!(
                f,
                "{name} is neither a region as region0, a namespace as namespace0.0 nor a module as nmem0 or 0x0001"
            ),
            ImageFault::Form { name, form } => {
                write!(f, "no image for {form} can be made of {name}: {}", form.wants())
            }
            ImageFault::NoData { region } => write!(
                f,
                "region{region} is DRAM of the machine that it was described after: its data is not here"
            ),
            ImageFault::LostSector { name, sector } => {
                write!(f, "{name}: its table says that sector {sector} can't be read")
            }
        }
    }
}

impl std::error::Error for ImageFault {}
