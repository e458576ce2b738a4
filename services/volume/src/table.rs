//! A block translation table as a block device.

use crate::block_error::BlockError;
use crate::device::{BlockDevice, Extent, Request, flush_changes, of_block, run_of_alike};
use crate::remapped::{Change, RemappedBlocks, run_batch};
use lode_btt::{Btt, BttError};
use lode_pmem::Medium;

/// Blocks that become zeros by writes with shared drains.
const TOGETHER: usize = 1024;

impl<M: Medium> BlockDevice for Btt<M> {
    fn block_size(&self) -> usize {
        Btt::block_size(self)
    }

    fn block_count(&self) -> u64 {
        Btt::block_count(self)
    }

    fn is_read_only(&self) -> bool {
        self.medium().memory().is_private_view()
    }

    fn has_volatile_cache(&self) -> bool {
        Btt::has_volatile_cache(self)
    }

    /// Map words must not reach the file before the contents that they name.
    fn has_process_cache(&self) -> bool {
        Btt::has_volatile_cache(self)
    }

    fn run(&self, batch: &mut [Request<'_>]) {
        run_batch(self, self, batch);
        flush_changes(batch, |request| request.is_fua, |_| BlockDevice::flush(self));
    }

    fn flush(&self) -> Result<(), BlockError> {
        Btt::flush(self).map_err(of_block::<BttError>(0, Btt::block_size(self)))
    }

    fn status(&self, block: u64, count: u64) -> Result<Extent, BlockError> {
        run_of_alike(self, block, count, |block| self.is_zero(block))
    }
}

impl<M: Medium> RemappedBlocks for Btt<M> {
    type Fault = BttError;

    fn read(&self, block: u64, into: &mut [u8]) -> Result<(), BttError> {
        Btt::read(self, block, into)
    }

    fn change_batch(&self, changes: &[Change<'_>]) -> Result<(), BttError> {
        if !self.hides_blocks_after_zeros() {
            return Btt::change_batch(self, changes);
        }
        let zeros = vec![0; Btt::block_size(self)];
        let changes: Vec<Change<'_>> =
            changes.iter().map(|(block, from)| (*block, Some(from.unwrap_or(&zeros)))).collect();
        Btt::change_batch(self, &changes)
    }

    fn write_in_place(&self, writes: &[(u64, &[u8])]) -> Result<(), BttError> {
        Btt::write_in_place(self, writes)
    }

    fn zero(&self, first: u64, count: u64) -> Result<(), BttError> {
        if !self.hides_blocks_after_zeros() {
            return Btt::zero(self, first, count);
        }
        let blocks: Vec<u64> =
            (first..first + count).filter(|block| !reads_as_stored_zeros(self, *block)).collect();
        blocks.chunks(TOGETHER).try_for_each(|blocks| {
            let zeros: Vec<Change<'_>> = blocks.iter().map(|block| (*block, None)).collect();
            RemappedBlocks::change_batch(self, &zeros)
        })
    }
}

/// Returns true if the block has zeros for its content, and no mark in their place.
fn reads_as_stored_zeros<M: Medium>(table: &Btt<M>, block: u64) -> bool {
    let mut content = vec![0; Btt::block_size(table)];
    let is_zeros = table.read(block, &mut content).is_ok() && content.iter().all(|byte| *byte == 0);
    is_zeros && !table.is_zero(block).unwrap_or(true)
}
