//! What can be wrong with the map and the flog of an arena.

use std::fmt;

/// Why map and flog of an arena are not those of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BttDamage {
    /// Less than the flog's length.
    FlogTooShort {
        /// The bytes that there are.
        len: u64,
        /// The bytes of the flog.
        want: u64,
    },
    /// A lane has an entry where others have padding.
    Padding {
        /// The number of the lane.
        lane: u32,
        /// The number of the place, from 0.
        place: u32,
    },
    /// Neither entry of a lane was ever written: nobody knows which block it has free.
    NoEntry {
        /// The number of the lane.
        lane: u32,
    },
    /// Both entries of a lane have the same sequence number: nobody knows which counts.
    EqualSeq {
        /// The number of the lane.
        lane: u32,
    },
    /// A field of a flog entry is out of its range.
    FlogField {
        /// The number of the lane.
        lane: u32,
        /// The field.
        field: &'static str,
        /// What is in it, without the bits of map entries.
        found: u32,
        /// The least that it may be.
        min: u32,
        /// The most that it may be.
        max: u32,
    },
    /// An entry of the map names a block that the arena has not.
    MapNumber {
        /// The external block.
        lba: u32,
        /// What the map has for it.
        found: u32,
        /// The blocks of the arena.
        internal_nlba: u32,
    },
    /// A block has two owners: external blocks, or lanes that have it free.
    Shared {
        /// The block of the data.
        block: u32,
    },
    /// A block has no owner.
    Lost {
        /// The first such block of the data.
        block: u32,
    },
}

impl fmt::Display for BttDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BttDamage::FlogTooShort { len, want } => {
                write!(f, "{len} bytes are too few for a flog of {want} bytes")
            }
            BttDamage::Padding { lane, place } => {
                write!(f, "the flog of lane {lane} has an entry at place {place}, where padding belongs")
            }
            BttDamage::NoEntry { lane } => {
                write!(f, "the flog of lane {lane} has no entry, so its free block is not known")
            }
            BttDamage::EqualSeq { lane } => {
                write!(f, "both flog entries of lane {lane} have the same seq, so neither is the newer one")
            }
            BttDamage::FlogField { lane, field, found, min, max } => {
                write!(f, "{field} in the flog of lane {lane} is {found}, it must be from {min} to {max}")
            }
            BttDamage::MapNumber { lba, found, internal_nlba } => {
                write!(f, "the map has block {found} for {lba}, the arena has {internal_nlba} blocks")
            }
            BttDamage::Shared { block } => {
                write!(f, "block {block} of the data is in use twice, in the map or as a free block")
            }
            BttDamage::Lost { block } => {
                write!(f, "block {block} of the data is neither in the map nor free")
            }
        }
    }
}

impl std::error::Error for BttDamage {}
