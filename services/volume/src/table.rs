//! A block translation table as a block device.

use crate::block_error::BlockError;
use crate::device::{BlockDevice, Extent, Request, flush_changes, of_block, run_of_alike};
use crate::remapped::{Change, RemappedBlocks, run_batch};
use lode_btt::{Btt, BttError};
use lode_pmem::Medium;

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
        Btt::change_batch(self, changes)
    }

    fn write_in_place(&self, writes: &[(u64, &[u8])]) -> Result<(), BttError> {
        Btt::write_in_place(self, writes)
    }

    fn zero(&self, first: u64, count: u64) -> Result<(), BttError> {
        Btt::zero(self, first, count)
    }
}
