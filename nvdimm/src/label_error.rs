//! Errors in labels and in the area that holds them.

use crate::label::LabelFormat;
use lode_layout::Contradiction;
use std::fmt;
use uuid::Uuid;

/// Reasons why a block at the start of an area is not a valid index block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexDamage {
    /// The block does not begin with the signature of an index block: it was never written, or was erased.
    Absent,
    /// This code does not know the version of the block.
    Version {
        /// The major number.
        major: u16,
        /// The minor number.
        minor: u16,
    },
    /// The checksum is wrong: the bytes are not those that were written.
    Checksum {
        /// The checksum of the bytes.
        want: u64,
        /// The checksum that the block holds.
        found: u64,
    },
    /// A field breaks its rule although the checksum is right.
    Field(Contradiction),
}

/// Reasons why a slot in use does not hold a valid label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelDamage {
    /// There are fewer bytes than a label has.
    TooShort {
        /// Number of bytes found.
        len: u64,
    },
    /// The checksum is wrong: the bytes are not those that were written.
    Checksum {
        /// The checksum of the bytes.
        want: u64,
        /// The checksum that the label holds.
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

/// Reasons why a label storage area can't be read, made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelError {
    /// No space for two index blocks and two labels.
    AreaTooSmall {
        /// Size of the area in bytes.
        size: u64,
        /// Least size in bytes.
        size_min: u64,
    },
    /// The area is larger than an area can be.
    AreaTooLarge {
        /// Size of the area in bytes.
        size: u64,
        /// Largest size in bytes.
        size_max: u64,
    },
    /// The area was never initialized, or its labels were erased.
    Blank,
    /// Neither index block is valid.
    NoIndex {
        /// Damage of the first.
        first: IndexDamage,
        /// Damage of the second.
        second: IndexDamage,
    },
    /// A new namespace would take the last free slot. Without a free slot no label can be changed.
    SlotsExhausted {
        /// Number of slots of the area.
        slot_count: u32,
    },
    /// There is no label of this namespace or region.
    Unknown {
        /// UUID of the namespace or region.
        uuid: Uuid,
    },
    /// The label has a property that labels of this version can't express.
    Format {
        /// The version of the area.
        format: LabelFormat,
    },
    /// The label breaks a rule.
    Field(Contradiction),
    /// The range is in use by another namespace or region.
    Overlap {
        /// UUID of that namespace or region.
        with: Uuid,
    },
    /// The name has more than 63 bytes, or contains a zero character.
    Name {
        /// Length of the name in bytes.
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
