//! Writes: step by step, of one block or of several.

use crate::blocks::Blocks;
use crate::bugs;
use crate::change::Change;
use crate::error::BlocksError;
use crate::record::{changes_max, with_record};
use lode_layout::{BlockMapWord, Record, WORD};
use lode_pmem::{FaultScope, Medium};
use lode_redo::{CommitHooks, LogError};

/// Lets a commit return when its record is stored, before it is durable.
struct UntilFlush;

impl CommitHooks for UntilFlush {
    fn waiting_max(&self, _entries: &[u64]) -> Option<u64> {
        Some(u64::MAX)
    }
}

impl<M: Medium> Blocks<M> {
    /// Writes a block. Allocates nothing.
    ///
    /// # Errors
    /// Those of a data block that can't be taken or written, of a map word that can't be read, and of the log. Nothing was
    /// changed, unless the write is in doubt.
    ///
    /// # Cost
    /// One drain without a volatile cache, none with one. Without one, no locked instruction lies between the copy and the
    /// drain: it would wait for the copy, too. With one, the lock of the block is held for no copy: that may wait for a page.
    pub(crate) fn write_one(&self, lba: u64, from: &[u8]) -> Result<(), BlocksError> {
        self.prefetch_word(lba);
        let block = self.take()?;
        let stripe = self.logged.is_none().then(|| self.stripes.hold_one(self.medium(), lba));
        self.wait_for_readers(&[block]);
        let change = self.stage(block, lba, from)?;
        let _stripe = stripe.unwrap_or_else(|| self.stripes.hold_one(self.medium(), lba));
        let old = self.replaced_word(lba).inspect_err(|_| self.spares.put_back(self.medium(), block))?;
        self.log_and_retire(&[change], old)
    }

    /// Writes blocks, and makes those without content zeros; each of them once.
    ///
    /// # Errors
    /// As [`write_one`](Blocks::write_one).
    ///
    /// # Cost
    /// A record, and its drain without a volatile cache, for as many blocks as have room in it, and as there are spares.
    pub(crate) fn change_several(&self, changes: &[(u64, Option<&[u8]>)]) -> Result<(), BlocksError> {
        let max = changes_max(self.log.record_words_max());
        let mut rest = changes;
        while !rest.is_empty() {
            let most = &rest[..rest.len().min(max)];
            let written: Vec<usize> = (0..most.len()).filter(|index| most[*index].1.is_some()).collect();
            let blocks = if written.is_empty() { Vec::new() } else { self.take_some(written.len())? };
            let (now, later) = rest.split_at(written.get(blocks.len()).copied().unwrap_or(most.len()));
            self.change_to(now, &blocks)?;
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

    /// Writes blocks to as many data blocks, which were taken for them, and makes others zeros, with one record.
    fn change_to(&self, all: &[(u64, Option<&[u8]>)], blocks: &[u32]) -> Result<(), BlocksError> {
        let hold = || self.stripes.hold(self.medium(), all.iter().map(|(lba, _)| *lba));
        let stripes = self.logged.is_none().then(hold);
        let put_back = |lost: Option<u32>| {
            let unused = blocks.iter().filter(|block| lost != Some(**block));
            unused.for_each(|block| self.spares.put_back(self.medium(), *block));
        };
        self.wait_for_readers(blocks);
        all.iter().for_each(|(lba, _)| self.prefetch_word(*lba));
        let mut changes = Vec::with_capacity(all.len());
        let mut free = blocks.iter();
        for (lba, from) in all {
            let (Some(from), Some(block)) = (from, from.and_then(|_| free.next())) else {
                changes.push(Change { lba: *lba, word: None });
                continue;
            };
            let staged = self.stage(*block, *lba, from);
            changes.push(staged.inspect_err(|_| put_back(Some(*block)))?);
        }
        let _stripes = stripes.unwrap_or_else(hold);
        let old = self.replaced_words(all.iter().map(|(lba, _)| *lba)).inspect_err(|_| put_back(None))?;
        self.log_and_retire(&changes, old.into_iter().flatten())
    }

    /// Makes blocks read as zeros.
    ///
    /// # Errors
    /// Those of the log; a map word that can't be read.
    ///
    /// # Cost
    /// A record, and its drain without a volatile cache, for as many blocks as have room in it.
    pub(crate) fn zero_each(&self, lbas: &[u64]) -> Result<(), BlocksError> {
        for lbas in lbas.chunks(changes_max(self.log.record_words_max())) {
            let changes: Vec<Change> = lbas.iter().map(|lba| Change { lba: *lba, word: None }).collect();
            if bugs::ZERO_NOT_LOGGED.is_active() {
                self.store_words(&changes);
                continue;
            }
            let _stripes = self.stripes.hold(self.medium(), lbas.iter().copied());
            let old = self.replaced_words(lbas.iter().copied())?;
            self.log_and_retire(&changes, old.into_iter().flatten())?;
        }
        Ok(())
    }

    /// Returns the map words of blocks that a writer replaces.
    fn replaced_words(
        &self,
        lbas: impl Iterator<Item = u64>,
    ) -> Result<Vec<Option<BlockMapWord>>, BlocksError> {
        lbas.map(|lba| self.replaced_word(lba)).collect()
    }

    /// Makes `changes` visible with one record, and retires the data blocks of the map words `old` that they replace. No block
    /// is there twice. The caller holds the locks of all from before it read those words until this returns: no other write of
    /// these blocks may free the same data blocks.
    ///
    /// # Errors
    /// Those of the log.
    ///
    /// # Durability
    /// Visible on return, and durable; with a volatile cache durable after the next flush. All changes of one call are there
    /// after a crash before that, or none.
    fn log_and_retire(
        &self,
        changes: &[Change],
        old: impl IntoIterator<Item = BlockMapWord>,
    ) -> Result<(), BlocksError> {
        if bugs::MAP_BEFORE_RECORD.is_active() {
            self.store_words(changes);
        }
        let sequence = with_record(&self.segments, changes, |record| match &self.logged {
            Some(_) => self.store_record(record),
            None => self.log.commit(record, &[]),
        })?;
        if let Some(logged) = &self.logged {
            // ORDER: visible before the data blocks that it replaces are retired: a reader that finds the older word then has
            // announced its data block, or looks again. Released by the lock of the spares.
            logged.add(self.medium(), changes, self.log.checkpointed());
        }
        let next = self.spares.retire(self.medium(), sequence, old.into_iter().map(|word| word.block));
        next.inspect(|next| self.prefetch_page(*next));
        Ok(())
    }

    /// Stores a record in the log, where the end of the process leaves it. The next flush makes it durable.
    fn store_record(&self, record: &mut Record) -> Result<u64, LogError> {
        let scope = FaultScope::open();
        let stored = self.log.commit_in(&scope, record, &[], &mut UntilFlush);
        // The error reports the fault.
        let _ = scope.close();
        let sequence = stored?.expect("no hook gives up the commit");
        #[cfg(lode_bugs)]
        crate::record::LAST_OWN.set(sequence);
        Ok(sequence)
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
