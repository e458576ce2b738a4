//! What can be wrong with an image, or with what one is to be made of.

use super::{ImageForm, Shape};
use lode_layout::{LabelDamage, LabelError};
use std::fmt;
use uuid::Uuid;

/// What can be wrong with an image, or with what one is to be made of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageFault {
    /// There is such a file already.
    Exists,
    /// A folder, a pipe or a device.
    NoFile,
    /// No image is so long.
    Length {
        /// Its bytes.
        len: u64,
    },
    /// The label area can't be read.
    Labels {
        /// Where it begins in the file, in bytes.
        off: u64,
        /// Why.
        error: LabelError,
    },
    /// A slot of the label area that is in use holds no whole label.
    TornLabel {
        /// The slot.
        slot: u32,
        /// Why.
        damage: LabelDamage,
    },
    /// Two labels have a part of the data in common.
    OverlappingLabels {
        /// Their slots.
        slots: (u32, u32),
    },
    /// Two labels are of one namespace, where it can have one.
    TwinLabels {
        /// Their slots.
        slots: (u32, u32),
        /// The namespace.
        uuid: Uuid,
    },
    /// A label of no bytes.
    EmptyLabel {
        /// The slot.
        slot: u32,
    },
    /// A namespace whose labels were not all written.
    HalfWritten {
        /// The namespace.
        uuid: Uuid,
    },
    /// A label of a set of modules that is none of QEMU's and none of the machine's.
    ForeignLabel {
        /// The slot of the label area.
        slot: u32,
        /// The identity of the set.
        cookie: u64,
    },
    /// A namespace that goes on behind the data.
    Behind {
        /// The namespace.
        uuid: Uuid,
        /// Where it ends, in bytes.
        end: u64,
        /// Bytes of data that count.
        len: u64,
    },
    /// A namespace that can't be spread evenly over the modules of a region.
    Uneven {
        /// The namespace.
        uuid: Uuid,
        /// Where it begins, in bytes.
        start: u64,
        /// Its bytes.
        size: u64,
        /// What both must be a multiple of.
        unit: u64,
    },
    /// No label of the image tells where it came from.
    NoOrigin,
    /// The image is not as long as one of what it is to go into.
    Size {
        /// What it is to go into.
        into: String,
        /// The bytes that its image has.
        want: u64,
        /// The bytes that there are.
        found: u64,
    },
    /// The image has no labels, and what it is to go into has.
    NoLabels {
        /// What it is to go into.
        into: String,
    },
    /// What is neither a region, a namespace nor a module.
    UnknownSource {
        /// What was asked for.
        name: String,
    },
    /// No image of this form can be made of it.
    Form {
        /// What was asked for.
        name: String,
        /// The form.
        form: ImageForm,
    },
    /// The data of a region is not in the directory, but in the DRAM of another machine.
    NoData {
        /// The number of the region.
        region: u32,
    },
    /// A sector that its table says can't be read.
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
