//! Errors in the map and the flog of an arena.

/// Reasons why map and flog of an arena are not those of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BttDamage {
    /// There are fewer bytes than the flog has.
    #[error("{len} bytes are too few for a flog of {want} bytes")]
    FlogTooShort {
        /// Number of bytes found.
        len: u64,
        /// Length of the flog in bytes.
        want: u64,
    },
    /// A lane has an entry where others have padding.
    #[error("the flog of lane {lane} has an entry at slot {slot}, where padding belongs")]
    Padding {
        /// The number of the lane.
        lane: u32,
        /// The number of the slot, from 0.
        slot: u32,
    },
    /// Neither entry of a lane was ever written, so the lane's free block is unknown.
    #[error("the flog of lane {lane} has no entry, so its free block is not known")]
    NoEntry {
        /// The number of the lane.
        lane: u32,
    },
    /// Both entries of a lane have the same sequence number, so neither is the newer one.
    #[error("both flog entries of lane {lane} have the same seq, so neither is the newer one")]
    EqualSeq {
        /// The number of the lane.
        lane: u32,
    },
    /// A field of a flog entry is out of its range.
    #[error("{field} in the flog of lane {lane} is {found}, it must be from {min} to {max}")]
    FlogField {
        /// The number of the lane.
        lane: u32,
        /// Name of the field.
        field: &'static str,
        /// Value of the field, without the state bits of map entries.
        found: u32,
        /// Smallest valid value.
        min: u32,
        /// Largest valid value.
        max: u32,
    },
    /// An entry of the map names a block that the arena does not have.
    #[error("the map has block {found} for {lba}, the arena has {internal_nlba} blocks")]
    MapNumber {
        /// The external block.
        lba: u32,
        /// The block that the map has for it.
        found: u32,
        /// Number of blocks of the arena.
        internal_nlba: u32,
    },
    /// A block has two owners. An owner is an external block, or a lane whose free block it is.
    #[error("block {block} of the data is in use twice, in the map or as a free block")]
    Shared {
        /// The block of the data.
        block: u32,
    },
    /// A block has no owner.
    #[error("block {block} of the data is neither in the map nor free")]
    Lost {
        /// The first such block of the data.
        block: u32,
    },
}
