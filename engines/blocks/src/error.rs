//! The errors of atomic blocks.

use lode_layout::{BlocksDescriptorError, InvalidField, PoolOffset};
use lode_pmem::Fault;
use lode_redo::LogError;

pub use lode_redo::InDoubtCause;

/// A part of a pool that is not as a writer left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A copy of the descriptor can't be used.
    #[error("the descriptor at {at} can't be used: {error}")]
    Descriptor {
        /// Offset of the copy.
        at: PoolOffset,
        /// The reason.
        error: BlocksDescriptorError,
    },
    /// The two copies of the descriptor are valid and differ.
    #[error("the descriptor at {at} differs from its first copy")]
    DescriptorDiffers {
        /// Offset of the second copy.
        at: PoolOffset,
    },
    /// There are more segments than a pool can have.
    #[error("the descriptor at {at} is one too many: the pool grew too often")]
    Segments {
        /// Offset of the first copy.
        at: PoolOffset,
    },
    /// A repair found no content of a block.
    #[error("block {lba} is lost: a repair found that its map word is of no use; write it again")]
    Lost {
        /// The number of the block.
        lba: u64,
    },
    /// A map word names a data block that does not exist.
    #[error("the map word of block {lba} at {at}: {error}")]
    MapWord {
        /// The number of the block.
        lba: u64,
        /// Offset of the map word.
        at: PoolOffset,
        /// The number of the data block, plus one, and the rule that it breaks.
        error: InvalidField,
    },
    /// Two map words name the same data block.
    #[error(
        "the map word of block {lba} at {at} names data block {block}, and so does that of another block"
    )]
    TwoOwners {
        /// The number of the block: of the later one, unless a repair tells.
        lba: u64,
        /// Offset of its map word.
        at: PoolOffset,
        /// Number of the data block.
        block: u32,
    },
    /// The content of a block does not have the checksum of what was written.
    #[error(
        "the content of block {lba}, {len} bytes at {at}, is not what was written: its checksum does not fit"
    )]
    Rotten {
        /// The number of the block.
        lba: u64,
        /// Offset of the content.
        at: PoolOffset,
        /// Length of the content in bytes.
        len: u64,
    },
    /// A record of the log changes something that is no map word.
    #[error("a record of the log changes {len} bytes at {at}, which is not in the map")]
    Record {
        /// Offset of the range.
        at: PoolOffset,
        /// Length of the range in bytes.
        len: u64,
    },
    /// Memory can't be read.
    #[error(transparent)]
    Memory(#[from] Fault),
    /// The log is damaged.
    #[error(transparent)]
    Log(LogError),
}

/// The reason why an operation on blocks failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlocksError {
    /// The pool is damaged, or the content of a block is. Other blocks can be read as long as the pool is open.
    #[error("{0}; restore it from a copy")]
    Damaged(Damage),
    /// The size of a block is out of range.
    #[error(transparent)]
    BlockSize(#[from] InvalidField),
    /// The pool has no room for one block and the spares.
    #[error("a pool of {size} bytes has no room for blocks of {block_size} bytes; make it larger")]
    NoRoom {
        /// Size of the pool in bytes.
        size: u64,
        /// Size of a block in bytes.
        block_size: u32,
    },
    /// The pool can't have more blocks.
    #[error(
        "a pool of {count} blocks that has grown so often can't grow further; copy the blocks to a larger one"
    )]
    Full {
        /// Number of blocks.
        count: u64,
    },
    /// The block does not exist.
    #[error("block {lba} does not exist: there are {count} blocks")]
    NoBlock {
        /// The number of the block.
        lba: u64,
        /// Number of blocks.
        count: u64,
    },
    /// The buffer is not as long as a block.
    #[error("the buffer has {len} bytes, a block has {want}")]
    Length {
        /// Length of the buffer in bytes.
        len: usize,
        /// Size of a block in bytes.
        want: usize,
    },
    /// All spare data blocks lie in memory that is lost.
    #[error("all {count} spare data blocks lie in lost memory; copy the blocks to another pool")]
    NoSpare {
        /// Number of spare data blocks that are lost.
        count: u64,
    },
    /// Memory that was needed is lost. No block was changed.
    #[error(transparent)]
    Memory(#[from] Fault),
    /// The write may or may not be there after the pool is opened again. This handle accepts no more writes.
    #[error("the write is in doubt: {0}")]
    InDoubt(InDoubtCause),
    /// An earlier write is in doubt. No block was changed.
    #[error(
        "an earlier write is in doubt, so this handle accepts no more writes; close the pool and open it again"
    )]
    Poisoned,
    /// The pool was opened for reading. No block was changed.
    #[error("the pool was opened for reading; open it for writing")]
    ReadOnly,
}

impl From<LogError> for Damage {
    fn from(error: LogError) -> Damage {
        match error {
            LogError::Fault(fault) => Damage::Memory(fault),
            error => Damage::Log(error),
        }
    }
}

impl From<Damage> for BlocksError {
    fn from(damage: Damage) -> BlocksError {
        match damage {
            Damage::Memory(fault) => BlocksError::Memory(fault),
            damage => BlocksError::Damaged(damage),
        }
    }
}

impl From<LogError> for BlocksError {
    fn from(error: LogError) -> BlocksError {
        match error {
            LogError::InDoubt(cause) => BlocksError::InDoubt(cause),
            LogError::Poisoned => BlocksError::Poisoned,
            LogError::ReadOnly => BlocksError::ReadOnly,
            LogError::Fault(fault) => BlocksError::Memory(fault),
            error @ LogError::Corrupt { .. } => BlocksError::Damaged(Damage::Log(error)),
        }
    }
}
