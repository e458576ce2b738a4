//! The block device that all formats offer.

use lode_btt::BttError;
use lode_pmem::{Fault, SyncError};

/// A request of a batch. Its buffer is lent by the caller, and holds whole blocks.
#[derive(Debug)]
pub enum Request<'b> {
    /// Reads blocks from `block` on into the buffer.
    Read {
        /// Number of the first block.
        block: u64,
        /// The buffer.
        into: &'b mut [u8],
    },
    /// Writes blocks from `block` on.
    Write {
        /// Number of the first block.
        block: u64,
        /// The buffer.
        from: &'b [u8],
    },
    /// Makes blocks read as zeros.
    Zero {
        /// Number of the first block.
        block: u64,
        /// Number of blocks.
        count: u64,
    },
}

/// Requests that are run together.
#[derive(Debug)]
pub struct Batch<'r, 'b> {
    /// The requests, which are run in order.
    pub requests: &'r mut [Request<'b>],
    /// True if all writes of the batch must be durable when it returns (FUA).
    pub is_fua: bool,
}

/// The reason why a block can't be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockFault {
    /// The table refuses.
    #[error(transparent)]
    Table(#[from] BttError),
    /// The memory of the block is lost, or the file system has no space for it.
    #[error("{0}")]
    Memory(#[from] Fault),
    /// A sync failed, so what was written since the last one may or may not be there.
    #[error("{0}; look for errors of the device in the kernel's log, then open the volume again")]
    Sync(#[from] SyncError),
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

/// Blocks that are read and written by number, from any number of threads.
///
/// # Durability
/// Without a [volatile cache](BlockDevice::has_volatile_cache), a batch is durable when it returns, and FUA is free. With
/// one, it is visible then, and durable after the next flush, or if it has FUA.
pub trait BlockDevice: Send + Sync {
    /// Returns the size of a block in bytes.
    fn block_size(&self) -> usize;

    /// Returns the number of blocks.
    fn block_count(&self) -> u64;

    /// Returns true if a batch without FUA is durable only after a [`flush`](BlockDevice::flush).
    fn has_volatile_cache(&self) -> bool;

    /// Runs the requests of a batch in order, up to the first that fails.
    ///
    /// # Errors
    /// Fails with the block that failed. Blocks before it were read or written, and those after it were not.
    ///
    /// # Durability
    /// See [`BlockDevice`].
    fn run(&self, batch: Batch<'_, '_>) -> Result<(), BlockError>;

    /// Makes all batches durable that have returned.
    ///
    /// # Errors
    /// Fails if a sync does. The device then accepts no more writes.
    fn flush(&self) -> Result<(), BlockError>;

    /// Returns the number of bytes of all blocks.
    fn capacity(&self) -> u64 {
        self.block_count() * self.block_size() as u64
    }
}

/// Returns a function that turns a fault of `block` into its error.
pub(crate) fn of_block<F: Into<BlockFault>>(block: u64, block_size: usize) -> impl Fn(F) -> BlockError {
    move |fault| BlockError { block, block_size: block_size as u64, fault: fault.into() }
}

/// Checks that a buffer holds whole blocks; returns their number.
pub(crate) fn blocks_in(len: usize, block: u64, block_size: usize) -> Result<u64, BlockError> {
    let fault = BlockFault::Length { len, block_size };
    if len.is_multiple_of(block_size) {
        Ok((len / block_size) as u64)
    } else {
        Err(of_block(block, block_size)(fault))
    }
}
