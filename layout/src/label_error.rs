//! What can be wrong with labels and the area that they are in.

use crate::Contradiction;
use crate::label::LabelFormat;
use std::fmt;
use uuid::Uuid;

/// Why a block at the start of an area is not a valid index block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexDamage {
    /// It does not begin as an index block does: never written, or erased.
    Absent,
    /// Its version is not one that this code knows.
    Version {
        /// The major number.
        major: u16,
        /// The minor number.
        minor: u16,
    },
    /// The bytes are not the ones that were written.
    Checksum {
        /// The checksum of the bytes.
        want: u64,
        /// The checksum that is written in them.
        found: u64,
    },
    /// A field breaks its rule, though the checksum is right.
    Field(Contradiction),
}

/// Why a slot that is in use holds no label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelDamage {
    /// Less than a label's length.
    TooShort {
        /// The bytes that there are.
        len: u64,
    },
    /// The bytes are not the ones that were written.
    Checksum {
        /// The checksum of the bytes.
        want: u64,
        /// The checksum that is written in them.
        found: u64,
    },
    /// A label of CXL of an unknown kind.
    Kind {
        /// The kind.
        found: Uuid,
    },
    /// A field breaks its rule.
    Field(Contradiction),
}

/// Why a label storage area can't be read, made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelError {
    /// No space for two index blocks and two labels.
    AreaTooSmall {
        /// The bytes of the area.
        size: u64,
        /// The bytes that it needs.
        size_min: u64,
    },
    /// More than an area can have.
    AreaTooLarge {
        /// The bytes of the area.
        size: u64,
        /// The bytes that it can have.
        size_max: u64,
    },
    /// The area was never initialized, or its labels were erased.
    Blank,
    /// Neither index block is valid.
    NoIndex {
        /// What is wrong with the first.
        first: IndexDamage,
        /// What is wrong with the second.
        second: IndexDamage,
    },
    /// A new namespace would take the last free slot, and without a free slot no label can be changed.
    SlotsExhausted {
        /// The slots of the area.
        slot_count: u32,
    },
    /// There is no label of this namespace or region.
    Unknown {
        /// What was looked for.
        uuid: Uuid,
    },
    /// The label has something that labels of this version can't say.
    Format {
        /// The version of the area.
        format: LabelFormat,
    },
    /// The label breaks a rule.
    Field(Contradiction),
    /// The range is in use.
    Overlap {
        /// By which namespace or region.
        with: Uuid,
    },
    /// A name of more than 63 bytes, or with a zero character.
    Name {
        /// Its bytes.
        len: usize,
    },
}

impl From<Contradiction> for IndexDamage {
    fn from(contradiction: Contradiction) -> IndexDamage {
        IndexDamage::Field(contradiction)
    }
}

impl From<Contradiction> for LabelDamage {
    fn from(contradiction: Contradiction) -> LabelDamage {
        LabelDamage::Field(contradiction)
    }
}

impl fmt::Display for IndexDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexDamage::Absent => f.write_str("there is none"),
            IndexDamage::Version { major, minor } => {
                write!(f, "it has version {major}.{minor}, known are 1.1, 1.2 and 2.1")
            }
            IndexDamage::Checksum { want, found } => {
                write!(f, "its checksum is {found:#018x}, that of its bytes {want:#018x}")
            }
            IndexDamage::Field(contradiction) => contradiction.fmt(f),
        }
    }
}

impl fmt::Display for LabelDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelDamage::TooShort { len } => write!(f, "{len} bytes are too few for a label"),
            LabelDamage::Checksum { want, found } => {
                write!(f, "the checksum of the label is {found:#018x}, that of its bytes {want:#018x}")
            }
            LabelDamage::Kind { found } => write!(f, "a label of the unknown kind {found}"),
            LabelDamage::Field(contradiction) => contradiction.fmt(f),
        }
    }
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelError::AreaTooSmall { size, size_min } => {
                write!(f, "a label area of {size} bytes is too small, it needs {size_min}")
            }
            LabelError::AreaTooLarge { size, size_max } => {
                write!(f, "a label area of {size} bytes is too large, it can have {size_max}")
            }
            LabelError::Blank => f.write_str("the label area is not initialized"),
            LabelError::NoIndex { first, second } => {
                write!(f, "the label area has no valid index block; the first: {first}; the second: {second}")
            }
            LabelError::SlotsExhausted { slot_count } => {
                write!(
                    f,
                    "all but one of the {slot_count} label slots are in use, and the last one must stay free"
                )
            }
            LabelError::Unknown { uuid } => write!(f, "there is no label of {uuid}"),
            LabelError::Format { format } => {
                write!(f, "labels of version {format} can't say what this one has to")
            }
            LabelError::Field(contradiction) => write!(f, "not a label: {contradiction}"),
            LabelError::Overlap { with } => write!(f, "the range is in use by {with}"),
            LabelError::Name { len } => {
                write!(f, "a name of {len} bytes: it can have 63, and no zero character")
            }
        }
    }
}

impl std::error::Error for IndexDamage {}
impl std::error::Error for LabelDamage {}
impl std::error::Error for LabelError {}
