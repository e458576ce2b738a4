//! A pool of atomic blocks as a block device.

use crate::device::{
    BlockDevice, BlockError, Extent, Op, Request, check_op, flush_changes, of_block, read_each, run_of_alike,
    write_each,
};
use lode_blocks::BlockPool;
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
        let mut rest = &mut *batch;
        while let Some(first) = rest.first() {
            let is_write = matches!(first.op, Op::Write { .. });
            let same = |request: &&Request<'_>| matches!(request.op, Op::Write { .. }) == is_write;
            let (alike, others) = rest.split_at_mut(rest.iter().take_while(same).count());
            match is_write {
                true => self.write_together(alike),
                false => {
                    alike.iter_mut().for_each(|request| request.result = self.run_other(&mut request.op))
                }
            }
            rest = others;
        }
        let has_cache = self.has_volatile_cache();
        flush_changes(batch, |request| has_cache && request.is_fua, |_| self.flush());
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.0.blocks().flush().map_err(of_block(0, self.block_size()))
    }

    fn status(&self, block: u64, count: u64) -> Result<Extent, BlockError> {
        run_of_alike(self, block, count, |block| self.0.blocks().is_zero(block))
    }
}

impl Atomic {
    /// Runs writes that follow each other: their blocks share drains.
    fn write_together(&self, writes: &mut [Request<'_>]) {
        let size = self.block_size();
        let mut blocks = Vec::new();
        for request in writes.iter_mut() {
            request.result = check_op(self, &request.op);
            if let (Ok(()), Op::Write { block, from }) = (&request.result, &request.op) {
                blocks.extend((*block..).zip(from.chunks_exact(size)));
            }
        }
        let Err(_) = self.0.blocks().write_batch(&blocks) else { return };
        // Written once more one by one, so that each request has the fault of its own block.
        for request in writes.iter_mut().filter(|request| request.result.is_ok()) {
            if let Op::Write { block, from } = &request.op {
                request.result =
                    write_each(*block, from, size, |block, from| self.0.blocks().write(block, from));
            }
        }
    }

    fn run_other(&self, op: &mut Op<'_>) -> Result<(), BlockError> {
        check_op(self, op)?;
        let (blocks, size) = (self.0.blocks(), self.block_size());
        match op {
            Op::Read { block, into } => read_each(*block, into, size, |block, into| blocks.read(block, into)),
            Op::Write { block, from } => {
                write_each(*block, from, size, |block, from| blocks.write(block, from))
            }
            Op::Zero { count: 0, .. } | Op::Trim { count: 0, .. } => Ok(()),
            Op::Zero { block, count } | Op::Trim { block, count } => {
                blocks.zero(*block, *count).map_err(of_block(*block, size))
            }
        }
    }
}
