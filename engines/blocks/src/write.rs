//! Writes on a medium without a volatile cache: durable when they return.

use crate::blocks::Blocks;
use crate::bugs;
use crate::change::Change;
use crate::error::BlocksError;
use crate::record::{changes_max, with_record};
use lode_layout::{BlockMapWord, WORD};
use lode_pmem::Medium;

impl<M: Medium> Blocks<M> {
    /// Writes a block. Allocates nothing.
    ///
    /// # Errors
    /// Those of a data block that can't be taken or written, of a map word that can't be read, and of the log. Nothing was
    /// changed, unless the write is in doubt.
    ///
    /// # Cost
    /// One drain. No locked instruction lies between the copy and the drain: it would wait for the copy, too.
    pub(crate) fn write_one_through(&self, lba: u64, from: &[u8]) -> Result<(), BlocksError> {
        self.prefetch_word(lba);
        let block = self.take()?;
        let _stripe = self.stripes.hold_one(self.medium(), lba);
        self.wait_for_readers(&[block]);
        let change = self.stage(block, lba, from)?;
        let old = self.pool_word(lba).inspect_err(|_| self.spares.put_back(self.medium(), block))?;
        self.log_and_retire(&[change], old)
    }

    /// Writes blocks, each of them once.
    ///
    /// # Errors
    /// As [`write_one_through`](Blocks::write_one_through).
    ///
    /// # Cost
    /// One drain for as many blocks as have room in a record, and as there are spares.
    pub(crate) fn write_through(&self, writes: &[(u64, &[u8])]) -> Result<(), BlocksError> {
        let max = changes_max(self.log.record_words_max());
        let mut rest = writes;
        while !rest.is_empty() {
            let blocks = self.take_some(rest.len().min(max))?;
            let (now, later) = rest.split_at(blocks.len());
            self.write_some(now, &blocks)?;
            rest = later;
        }
        Ok(())
    }

    /// Takes data blocks: at most `count`, at least one.
    fn take_some(&self, count: usize) -> Result<Vec<u32>, BlocksError> {
        let mut blocks = Vec::with_capacity(count);
        // Waits for a data block only while it has none: other writers may wait for those.
        blocks.push(self.take()?);
        blocks.extend((1..count).map_while(|_| self.try_take()));
        Ok(blocks)
    }

    /// Writes blocks to as many data blocks, which were taken for them, with one record.
    fn write_some(&self, writes: &[(u64, &[u8])], blocks: &[u32]) -> Result<(), BlocksError> {
        let _stripes = self.stripes.hold(self.medium(), writes.iter().map(|(lba, _)| *lba));
        let put_back = |lost: Option<u32>| {
            let unused = blocks.iter().filter(|block| lost != Some(**block));
            unused.for_each(|block| self.spares.put_back(self.medium(), *block));
        };
        self.wait_for_readers(blocks);
        writes.iter().for_each(|(lba, _)| self.prefetch_word(*lba));
        let mut changes = Vec::with_capacity(writes.len());
        for ((lba, from), block) in writes.iter().zip(blocks) {
            let staged = self.stage(*block, *lba, from);
            changes.push(staged.inspect_err(|_| put_back(Some(*block)))?);
        }
        let old = self.pool_words(writes.iter().map(|(lba, _)| *lba)).inspect_err(|_| put_back(None))?;
        self.log_and_retire(&changes, old.into_iter().flatten())
    }

    /// Makes blocks read as zeros.
    ///
    /// # Errors
    /// Those of the log; a map word that can't be read.
    ///
    /// # Cost
    /// One drain for as many blocks as have room in a record.
    pub(crate) fn zero_through(&self, lbas: &[u64]) -> Result<(), BlocksError> {
        for lbas in lbas.chunks(changes_max(self.log.record_words_max())) {
            let changes: Vec<Change> = lbas.iter().map(|lba| Change { lba: *lba, word: None }).collect();
            if bugs::ZERO_NOT_LOGGED.is_active() {
                self.store_words(&changes);
                continue;
            }
            let _stripes = self.stripes.hold(self.medium(), lbas.iter().copied());
            let old = self.pool_words(lbas.iter().copied())?;
            self.log_and_retire(&changes, old.into_iter().flatten())?;
        }
        Ok(())
    }

    /// Returns the map words of blocks that the pool has.
    fn pool_words(&self, lbas: impl Iterator<Item = u64>) -> Result<Vec<Option<BlockMapWord>>, BlocksError> {
        lbas.map(|lba| self.pool_word(lba)).collect()
    }

    /// Makes `changes` durable and visible with one record, and retires the data blocks of the map words `old` that they
    /// replace. No block is there twice. The caller holds the locks of all from before it read those words until this
    /// returns: no other write of these blocks may free the same data blocks.
    ///
    /// # Errors
    /// Those of the log.
    ///
    /// # Durability
    /// Durable and visible on return. All changes of one call are there after a crash before that, or none.
    fn log_and_retire(
        &self,
        changes: &[Change],
        old: impl IntoIterator<Item = BlockMapWord>,
    ) -> Result<(), BlocksError> {
        if bugs::MAP_BEFORE_RECORD.is_active() {
            self.store_words(changes);
        }
        let sequence = with_record(&self.segments, changes, |record| self.log.commit(record, &[]))?;
        self.spares.retire(self.medium(), sequence, old.into_iter().map(|word| word.block));
        Ok(())
    }

    /// Stores map words that no record has: for seeded bugs.
    fn store_words(&self, changes: &[Change]) {
        for change in changes {
            let at = self.segments.word_at(change.lba);
            self.medium().store8(at, change.stored_word());
            self.medium().flush(at, WORD);
        }
    }
}
