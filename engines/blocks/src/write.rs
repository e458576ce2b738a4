//! Writes on a medium without a volatile cache: durable when they return.

use crate::blocks::Blocks;
use crate::bugs;
use crate::change::Change;
use crate::error::BlocksError;
use crate::record::{changes_max, with_record};
use lode_layout::{BlockMapWord, WORD};
use lode_pmem::Medium;

impl<M: Medium> Blocks<M> {
    /// Writes blocks, each of them once.
    ///
    /// # Errors
    /// As [`commit`](Blocks::commit), and those of a data block that can't be taken or written.
    ///
    /// # Cost
    /// One drain for as many blocks as have room in a record, and as there are spares.
    pub(crate) fn write_through(&self, writes: &[(u64, &[u8])]) -> Result<(), BlocksError> {
        let max = changes_max(self.log.record_words_max());
        let mut rest = writes;
        while !rest.is_empty() {
            let changes = self.stage_some(&rest[..rest.len().min(max)])?;
            self.commit(&changes)?;
            rest = &rest[changes.len()..];
        }
        Ok(())
    }

    /// Stages the first of `writes`, and as many others as there are data blocks for.
    fn stage_some(&self, writes: &[(u64, &[u8])]) -> Result<Vec<Change>, BlocksError> {
        let mut changes = Vec::with_capacity(writes.len());
        for (lba, from) in writes {
            // Waits for a data block only while it has none: other writers may wait for those.
            let block = if changes.is_empty() { self.take().map(Some) } else { Ok(self.try_take()) };
            let Some(block) = block? else { break };
            let staged = self.stage(block, *lba, from);
            changes.push(staged.inspect_err(|_| self.unstage(&changes))?);
        }
        Ok(changes)
    }

    /// Makes blocks read as zeros.
    ///
    /// # Errors
    /// As [`commit`](Blocks::commit).
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
            self.commit(&changes)?;
        }
        Ok(())
    }

    /// Makes the map words and the contents of `changes` durable with one record. No block is there twice.
    ///
    /// # Errors
    /// Those of the log; a map word that can't be read. Nothing was changed, unless the write is in doubt.
    ///
    /// # Durability
    /// Durable and visible on return. All changes of one call are there after a crash before that, or none.
    fn commit(&self, changes: &[Change]) -> Result<(), BlocksError> {
        // Held until the map words are stored: no other write of these blocks may free the same data blocks.
        let _stripes = self.stripes.hold(self.medium(), changes.iter().map(|change| change.lba));
        let old: Result<Vec<Option<BlockMapWord>>, BlocksError> =
            changes.iter().map(|change| self.pool_word(change.lba)).collect();
        let old = old.inspect_err(|_| self.unstage(changes))?;
        if bugs::MAP_BEFORE_RECORD.is_active() {
            self.store_words(changes);
        }
        let sequence = with_record(&self.descriptor, changes, |record| self.log.commit(record, &[]))?;
        self.spares.retire(self.medium(), sequence, old.into_iter().flatten().map(|word| word.block));
        Ok(())
    }

    /// Stores map words that no record has: for seeded bugs.
    fn store_words(&self, changes: &[Change]) {
        for change in changes {
            let at = self.descriptor.word_at(change.lba);
            self.medium().store8(at, change.stored_word());
            self.medium().flush(at, WORD);
        }
    }
}
