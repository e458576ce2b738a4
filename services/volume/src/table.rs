//! A block translation table as a block device.

use crate::device::{Batch, BlockDevice, BlockError, Request, blocks_in, of_block};
use lode_btt::{Btt, BttError};
use lode_pmem::Medium;

impl<M: Medium> BlockDevice for Btt<M> {
    fn block_size(&self) -> usize {
        Btt::block_size(self)
    }

    fn block_count(&self) -> u64 {
        Btt::block_count(self)
    }

    fn has_volatile_cache(&self) -> bool {
        Btt::has_volatile_cache(self)
    }

    fn run(&self, batch: Batch<'_, '_>) -> Result<(), BlockError> {
        let size = Btt::block_size(self);
        for request in batch.requests.iter_mut() {
            match request {
                Request::Read { block, into } => {
                    blocks_in(into.len(), *block, size)?;
                    for (block, into) in (*block..).zip(into.chunks_exact_mut(size)) {
                        self.read(block, into).map_err(of_block(block, size))?;
                    }
                }
                Request::Write { block, from } => {
                    blocks_in(from.len(), *block, size)?;
                    for (block, from) in (*block..).zip(from.chunks_exact(size)) {
                        self.write(block, from).map_err(of_block(block, size))?;
                    }
                }
                Request::Zero { block, count } => {
                    for block in *block..block.saturating_add(*count) {
                        self.zero(block).map_err(of_block(block, size))?;
                    }
                }
            }
        }
        if batch.is_fua { BlockDevice::flush(self) } else { Ok(()) }
    }

    fn flush(&self) -> Result<(), BlockError> {
        Btt::flush(self).map_err(of_block::<BttError>(0, Btt::block_size(self)))
    }
}
