//! Errors in labels and in the area that holds them.

use crate::label_format::LabelFormat;
use lode_layout::InvalidField;
use uuid::Uuid;

/// Reasons why a block at the start of an area is not a valid index block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexDamage {
    /// The block does not begin with the signature of an index block: it was never written, or was erased.
    #[error("there is none")]
    Absent,
    /// This code does not know the version of the block.
    #[error("it has version {major}.{minor}, known are 1.1, 1.2 and 2.1")]
    Version {
        /// The major number.
        major: u16,
        /// The minor number.
        minor: u16,
    },
    /// The checksum is wrong: the bytes are not those that were written.
    #[error("its checksum is {found:#018x}, that of its bytes {want:#018x}")]
    Checksum {
        /// The checksum of the bytes.
        want: u64,
        /// The checksum that the block holds.
        found: u64,
    },
    /// A field breaks its rule although the checksum is right.
    #[error(transparent)]
    Field(#[from] InvalidField),
}

/// Reasons why a slot in use does not hold a valid label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelDamage {
    /// There are fewer bytes than a label has.
    #[error("{len} bytes are too few for a label")]
    TooShort {
        /// Number of bytes found.
        len: u64,
    },
    /// The checksum is wrong: the bytes are not those that were written.
    #[error("the checksum of the label is {found:#018x}, that of its bytes {want:#018x}")]
    Checksum {
        /// The checksum of the bytes.
        want: u64,
        /// The checksum that the label holds.
        found: u64,
    },
    /// A label of CXL of an unknown kind.
    #[error("a label of the unknown kind {found}")]
    Kind {
        /// The kind.
        found: Uuid,
    },
    /// A field breaks its rule.
    #[error(transparent)]
    Field(#[from] InvalidField),
}

/// Reasons why a label storage area can't be read, made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// No space for two index blocks and two labels.
    #[error("a label area of {size} bytes is too small, it needs {size_min}")]
    AreaTooSmall {
        /// Size of the area in bytes.
        size: u64,
        /// Least size in bytes.
        size_min: u64,
    },
    /// The area is larger than an area can be.
    #[error("a label area of {size} bytes is too large, it can have {size_max}")]
    AreaTooLarge {
        /// Size of the area in bytes.
        size: u64,
        /// Largest size in bytes.
        size_max: u64,
    },
    /// The area was never initialized, or its labels were erased.
    #[error("the label area is not initialized")]
    Blank,
    /// Neither index block is valid.
    #[error("the label area has no valid index block; the first: {first}; the second: {second}")]
    NoIndex {
        /// Damage of the first.
        first: IndexDamage,
        /// Damage of the second.
        second: IndexDamage,
    },
    /// A new namespace would take the last free slot. Without a free slot no label can be changed.
    #[error("all but one of the {slot_count} label slots are in use, and the last one must stay free")]
    SlotsExhausted {
        /// Number of slots of the area.
        slot_count: u32,
    },
    /// There is no label of this namespace or region.
    #[error("there is no label of {uuid}")]
    Unknown {
        /// UUID of the namespace or region.
        uuid: Uuid,
    },
    /// The label has a property that labels of this version can't express.
    #[error("labels of version {format} can't say what this one has to")]
    Format {
        /// The version of the area.
        format: LabelFormat,
    },
    /// The label breaks a rule.
    #[error("not a label: {0}")]
    Field(InvalidField),
    /// The range is in use by another namespace or region.
    #[error("the range is in use by {with}")]
    Overlap {
        /// UUID of that namespace or region.
        with: Uuid,
    },
    /// The name has more than 63 bytes, or contains a zero character.
    #[error("a name of {len} bytes: it can have 63, and no zero character")]
    Name {
        /// Length of the name in bytes.
        len: usize,
    },
}
