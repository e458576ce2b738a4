//! The errors of a table.

use lode_layout::{PmdkHeaderError, PoolOffset};
use lode_nvdimm::{BttDamage, InfoBlockError};
use lode_pmem::{Fault, SyncError};

/// The reason why the outcome of a write is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InDoubtCause {
    /// A sync failed: the write may or may not be there.
    #[error("{0}")]
    Drain(SyncError),
    /// The flog or the map can't be stored to.
    #[error("{0}")]
    Memory(Fault),
}

/// The reason why an operation on a table failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BttError {
    /// Neither place of the first info block has one.
    #[error("there is no block translation table on this medium: make one, or name the medium that has it")]
    Absent,
    /// The medium begins with the header of a block pool of PMDK, which can't be used.
    #[error("the block pool of PMDK can't be used: {0}")]
    Pool(#[source] PmdkHeaderError),
    /// A block pool of PMDK was open in a crash, on modules that count their unsafe shutdowns.
    #[error(
        "the pool was open when its program or its machine stopped, and it lies on modules that may have lost stores then; open it with PMDK, which knows the modules' counts, or run `pmempool check --repair`"
    )]
    OpenInCrash,
    /// Neither copy of an arena's info block is valid.
    #[error(
        "both info blocks of arena {arena} are unusable, the one at {at}: {error}; restore the medium from a copy"
    )]
    Info {
        /// The number of the arena, from 0.
        arena: u32,
        /// Offset of the first of them.
        at: PoolOffset,
        /// The reason why the first of them is unusable.
        error: InfoBlockError,
    },
    /// An arena does not belong to the same table as the first one.
    #[error(
        "the info block of arena {arena} at {at} has another {field} than that of the first arena; restore it from a copy"
    )]
    Foreign {
        /// The number of the arena, from 0.
        arena: u32,
        /// Offset of its info block.
        at: PoolOffset,
        /// Name of the field.
        field: &'static str,
    },
    /// An arena ends after the end of the medium.
    #[error(
        "arena {arena} at {at} ends at {end:#x}, and the medium has {len:#x} bytes: it was cut short; restore its length"
    )]
    CutShort {
        /// The number of the arena, from 0.
        arena: u32,
        /// Offset of its info block.
        at: PoolOffset,
        /// End of the arena, in bytes from the start of the medium.
        end: u64,
        /// Length of the medium in bytes.
        len: u64,
    },
    /// The flog or the map of an arena is not that of a table.
    #[error("arena {arena} at {at} is damaged: {damage}; repair the table")]
    Damaged {
        /// The number of the arena, from 0.
        arena: u32,
        /// Offset of its info block.
        at: PoolOffset,
        /// The damage.
        damage: BttDamage,
    },
    /// The table does not have that block.
    #[error("block {lba} does not exist: the table has {count} blocks")]
    NoBlock {
        /// The number of the block.
        lba: u64,
        /// Number of blocks of the table.
        count: u64,
    },
    /// The byte is not in the range whose pieces were asked for.
    #[error(
        "byte {at} is outside of the range {start:#x}..{end:#x} whose pieces are known; ask for a range that has it"
    )]
    OutsideOfRange {
        /// Offset of the byte.
        at: PoolOffset,
        /// The first byte of the range.
        start: u64,
        /// The end of the range.
        end: u64,
    },
    /// The buffer is not as long as a block.
    #[error("the buffer has {len} bytes, a block has {want}")]
    Length {
        /// Length of the buffer in bytes.
        len: usize,
        /// Size of a block in bytes.
        want: usize,
    },
    /// The content of the block is lost. A write of the block ends that.
    #[error("the content of block {lba} is lost, as its map entry says; write the block again")]
    Lost {
        /// The number of the block.
        lba: u64,
    },
    /// The info block says that the arena must not be written.
    #[error("arena {arena} had an error and is read-only; copy its blocks to another table")]
    ReadOnly {
        /// The number of the arena, from 0.
        arena: u32,
    },
    /// Memory that was needed is lost. No block was changed.
    #[error(transparent)]
    Memory(#[from] Fault),
    /// The write may or may not be there after the table is opened again. This handle accepts no more writes.
    #[error("the write is in doubt, it may or may not be there after reopening: {0}")]
    InDoubt(InDoubtCause),
    /// An earlier write is in doubt. No block was changed.
    #[error(
        "an earlier write is in doubt, so this handle accepts no more writes; close the table and open it again"
    )]
    Poisoned,
}

impl From<SyncError> for BttError {
    fn from(error: SyncError) -> BttError {
        BttError::InDoubt(InDoubtCause::Drain(error))
    }
}
