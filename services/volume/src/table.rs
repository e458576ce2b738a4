//! A block translation table as a block device.

use crate::device::{
    BlockDevice, BlockError, Extent, Op, Request, check_op, flush_changes, of_block, read_each, run_of_alike,
    write_each,
};
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

    fn run(&self, batch: &mut [Request<'_>]) {
        for request in batch.iter_mut() {
            request.result = check_op(self, &request.op).and_then(|()| run_op(self, &mut request.op));
        }
        flush_changes(batch, |request| request.is_fua, |_| BlockDevice::flush(self));
    }

    fn flush(&self) -> Result<(), BlockError> {
        Btt::flush(self).map_err(of_block::<BttError>(0, Btt::block_size(self)))
    }

    fn status(&self, block: u64, count: u64) -> Result<Extent, BlockError> {
        run_of_alike(self, block, count, |block| self.is_zero(block))
    }
}

/// Runs an operation on blocks that the table has, block by block.
fn run_op<M: Medium>(table: &Btt<M>, op: &mut Op<'_>) -> Result<(), BlockError> {
    let size = Btt::block_size(table);
    match op {
        Op::Read { block, into } => read_each(*block, into, size, |block, into| table.read(block, into)),
        Op::Write { block, from } => write_each(*block, from, size, |block, from| table.write(block, from)),
        Op::Zero { block, count } | Op::Trim { block, count } => {
            (*block..*block + *count).try_for_each(|block| table.zero(block).map_err(of_block(block, size)))
        }
    }
}
