//! Contents on their way: the data block that each takes, and the change of its map word.

use crate::blocks::Blocks;
use crate::bugs;
use crate::change::Change;
use crate::error::BlocksError;
use lode_layout::{BLOCK, BlockMapWord, PoolOffset};
use lode_pmem::{FaultScope, Medium, crc32c, hold};

impl<M: Medium> Blocks<M> {
    /// Copies the content of a block to the data block `block`, past the cache. No reader reads that any more.
    ///
    /// # Errors
    /// Fails if the data block lies in lost memory. It is left out from then on.
    pub(crate) fn stage(&self, block: u32, lba: u64, from: &[u8]) -> Result<Change, BlocksError> {
        let copied = FaultScope::run(|| self.medium().copy(self.segments.data_at(block), from));
        copied.inspect_err(|_| self.spares.lose(self.medium()))?;
        // After the copy, whose stores the CPU still hands to the memory while it computes this.
        let summed = if bugs::CHECKSUM_OF_A_PART.is_active() { &from[..from.len() / 2] } else { from };
        Ok(Change { lba, word: Some(BlockMapWord { block, crc: crc32c(summed) }) })
    }

    /// Takes a data block that can be written. Waits for other writers, and makes a checkpoint, if there is none.
    ///
    /// # Errors
    /// [`BlocksError::NoSpare`], and the errors of a flush and of a checkpoint.
    ///
    /// # Cost
    /// A checkpoint, for all data blocks that were freed since the last one. At durability `commit` a flush before it.
    pub(crate) fn take(&self) -> Result<u32, BlocksError> {
        self.log.begin_epoch()?;
        match self.try_take() {
            Some(block) => Ok(block),
            None => self.reclaim(),
        }
    }

    /// Takes a data block that can be written now, if there is one.
    pub(crate) fn try_take(&self) -> Option<u32> {
        self.spares.take(self.medium(), self.log.checkpointed())
    }

    /// Lets the CPU translate the page of a data block that the next write takes, while it waits for the drain of this one. It
    /// fetches a line of another block in the page: a line that is in the cache delays a copy past it by 100 cycles. A block of
    /// a whole page has no such line.
    #[inline]
    pub(crate) fn prefetch_page(&self, block: u32) {
        if self.block_size() <= BLOCK as usize / 2 {
            let at = self.segments.data_at(block).get() ^ (BLOCK / 2);
            self.medium().memory().prefetch_load(PoolOffset::new(at));
        }
    }

    #[cold]
    fn reclaim(&self) -> Result<u32, BlocksError> {
        for round in 0.. {
            let one = hold(&self.spares.reclaiming, self.medium());
            // The writer that held the lock before may have freed some.
            if let Some(block) = self.try_take() {
                return Ok(block);
            }
            self.log.begin_epoch()?;
            self.flush()?;
            if self.spares.has_retired(self.medium()) {
                self.log.checkpoint()?;
                if let Some(block) = self.try_take() {
                    return Ok(block);
                }
            }
            drop(one);
            // A data block that is not lost comes back: no writer waits while it has one.
            let lost = self.spares.lost(self.medium());
            if lost >= self.segments.spare_count() {
                return Err(BlocksError::NoSpare { count: lost });
            }
            self.medium().relax(round);
        }
        unreachable!("the loop ends with a data block")
    }
}
