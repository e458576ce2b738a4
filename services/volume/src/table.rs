//! A block translation table as a block device.

use crate::device::{
    BlockDevice, BlockError, Extent, Op, Request, check_op, fail_changes, of_block, run_of_alike,
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
        let is_fua = |request: &Request<'_>| request.is_fua;
        if batch.iter().any(|request| request.is_fua && request.op.is_change())
            && let Err(error) = BlockDevice::flush(self)
        {
            fail_changes(batch, is_fua, error);
        }
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
        Op::Read { block, into } => (*block..)
            .zip(into.chunks_exact_mut(size))
            .try_for_each(|(block, into)| table.read(block, into).map_err(of_block(block, size))),
        Op::Write { block, from } => (*block..)
            .zip(from.chunks_exact(size))
            .try_for_each(|(block, from)| table.write(block, from).map_err(of_block(block, size))),
        Op::Zero { block, count } | Op::Trim { block, count } => {
            (*block..*block + *count).try_for_each(|block| table.zero(block).map_err(of_block(block, size)))
        }
    }
}
