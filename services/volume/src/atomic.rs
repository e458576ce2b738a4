//! A pool of atomic blocks as a block device.

use crate::block_error::BlockError;
use crate::device::{BlockDevice, Extent, Request, flush_changes, of_block, run_of_alike};
use crate::error::VolumeError;
use crate::remapped::{Change, RemappedBlocks, run_batch};
use lode_blocks::{BlockPool, BlocksError};
use lode_pmem::Medium;

/// The blocks of a pool that is open and locked until drop.
pub(crate) struct Atomic(pub(crate) BlockPool);

impl BlockDevice for Atomic {
    fn block_size(&self) -> usize {
        self.0.blocks().block_size()
    }

    fn block_count(&self) -> u64 {
        self.0.blocks().block_count()
    }

    fn is_read_only(&self) -> bool {
        self.0.blocks().medium().memory().is_private_view()
    }

    fn has_volatile_cache(&self) -> bool {
        self.0.blocks().has_volatile_cache()
    }

    fn run(&self, batch: &mut [Request<'_>]) {
        run_batch(self, self, batch);
        let has_cache = self.has_volatile_cache();
        flush_changes(batch, |request| has_cache && request.is_fua, |_| self.flush());
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.0.blocks().flush().map_err(of_block(0, self.block_size()))
    }

    fn status(&self, block: u64, count: u64) -> Result<Extent, BlockError> {
        run_of_alike(self, block, count, |block| self.0.blocks().is_zero(block))
    }

    fn can_grow(&self) -> bool {
        self.0.file().medium().can_grow()
    }

    fn grow(&self, capacity: u64) -> Result<(), VolumeError> {
        if !self.can_grow() {
            return Err(VolumeError::FixedCapacity);
        }
        if capacity < self.capacity() {
            return Err(VolumeError::Shrinks { size: capacity, was: self.capacity() });
        }
        Ok(self.0.grow_to_blocks(capacity.div_ceil(self.block_size() as u64))?)
    }
}

impl RemappedBlocks for Atomic {
    type Fault = BlocksError;

    fn read(&self, block: u64, into: &mut [u8]) -> Result<(), BlocksError> {
        self.0.blocks().read(block, into)
    }

    fn change_batch(&self, changes: &[Change<'_>]) -> Result<(), BlocksError> {
        self.0.blocks().change_batch(changes)
    }

    fn zero(&self, first: u64, count: u64) -> Result<(), BlocksError> {
        self.0.blocks().zero(first, count)
    }
}
