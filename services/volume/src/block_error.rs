//! The failure of a block.

use lode_blocks::BlocksError;
use lode_btt::BttError;
use lode_pmem::{Fault, FaultKind, SyncError};

/// The reason why a block can't be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockFault {
    /// The table refuses.
    #[error(transparent)]
    Table(#[from] BttError),
    /// The pool of atomic blocks refuses.
    #[error(transparent)]
    Blocks(#[from] BlocksError),
    /// The memory of the block is lost, or the file system has no space for it.
    #[error("{0}")]
    Memory(#[from] Fault),
    /// A sync failed, so what was written since the last one may or may not be there.
    #[error("{0}; look for errors of the device in the kernel's log, then open the volume again")]
    Sync(#[from] SyncError),
    /// The volume was opened for reading.
    #[error("the volume was opened for reading")]
    ReadOnly,
    /// An earlier sync failed, so this handle writes no more.
    #[error("an earlier sync failed, so this handle accepts no more writes; open the volume again")]
    Poisoned,
    /// The volume does not have that block.
    #[error("there is no such block: the volume has {count}")]
    NoBlock {
        /// Number of blocks of the volume.
        count: u64,
    },
    /// The buffer holds no whole number of blocks.
    #[error("the buffer has {len} bytes, which are not whole blocks of {block_size}")]
    Length {
        /// Length of the buffer in bytes.
        len: usize,
        /// Size of a block in bytes.
        block_size: usize,
    },
}

impl BlockFault {
    /// Returns true if the write may or may not be there after the volume is opened again.
    pub(crate) fn is_in_doubt(&self) -> bool {
        matches!(self, BlockFault::Blocks(BlocksError::InDoubt(_)) | BlockFault::Table(BttError::InDoubt(_)))
    }

    /// Returns true if the content of the block is not what was written.
    pub fn is_damage(&self) -> bool {
        match self {
            BlockFault::Blocks(BlocksError::Damaged(_))
            | BlockFault::Table(BttError::Damaged { .. } | BttError::Lost { .. }) => true,
            fault => fault.memory().is_some_and(|fault| fault.is_damage()),
        }
    }

    /// Returns true if the file system has no space for the block. It is written once there is space.
    pub fn is_no_space(&self) -> bool {
        self.memory().is_some_and(|fault| fault.kind == FaultKind::NoSpace)
    }

    /// Returns the fault of the memory, if that is the reason.
    fn memory(&self) -> Option<Fault> {
        match self {
            BlockFault::Memory(fault)
            | BlockFault::Blocks(
                BlocksError::Memory(fault)
                | BlocksError::InDoubt(lode_blocks::InDoubtCause::WriteBack(fault)),
            )
            | BlockFault::Table(
                BttError::Memory(fault) | BttError::InDoubt(lode_btt::InDoubtCause::Memory(fault)),
            ) => Some(*fault),
            _ => None,
        }
    }
}

/// The failure of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {block} (bytes {:#x} to {:#x} of the volume): {fault}", .block * .block_size, (.block + 1) * .block_size)]
pub struct BlockError {
    /// Number of the block; of a failed flush, that of the first block of its batch, or 0.
    pub block: u64,
    /// Size of a block in bytes.
    pub block_size: u64,
    /// The reason.
    #[source]
    pub fault: BlockFault,
}
