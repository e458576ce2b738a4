//! Writes to the volatile cache, and the flush that makes them durable. The head of `cache.rs` has the order.

use crate::blocks::Blocks;
use crate::bugs;
use crate::cache::{Cache, Logged, Newer};
use crate::change::Change;
use crate::error::BlocksError;
use crate::record::{changes_max, with_record};
use lode_layout::BlockMapWord;
use lode_pmem::{FaultScope, Medium, hold};
use lode_redo::CommitHooks;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Lets a commit return before its record is durable, if another of the same flush follows.
struct IsFollowed(bool);

impl CommitHooks for IsFollowed {
    fn waiting_max(&self, _entries: &[u64]) -> Option<u64> {
        self.0.then_some(u64::MAX)
    }
}

impl<M: Medium> Blocks<M> {
    /// Writes a block to the cache.
    ///
    /// # Errors
    /// Those of a data block that can't be taken or written. Nothing was changed.
    ///
    /// # Durability
    /// The write is visible on return, and durable after the next flush.
    pub(crate) fn write_cached(&self, cache: &Cache, lba: u64, from: &[u8]) -> Result<(), BlocksError> {
        // A flush has to read the map word: if it is lost, this write fails alone, and not a flush of others.
        self.pool_word(lba)?;
        let block = self.take()?;
        self.wait_for_readers(&[block]);
        let change = self.stage(block, lba, from)?;
        self.change_cached(cache, change)
    }

    /// Puts a map word into the cache.
    pub(crate) fn change_cached(&self, cache: &Cache, change: Change) -> Result<(), BlocksError> {
        self.log.check_accepts_records()?;
        let newer = Newer {
            word: change.stored_word(),
            #[cfg(lode_bugs)]
            by: lode_pmem::biased::Owner::current(),
        };
        let mut waiting = hold(&cache.waiting, self.medium());
        let mut in_vain = waiting.newer.insert(change.lba, newer).map(|newer| newer.word);
        if bugs::FREED_WHILE_SETTLING.is_active() {
            in_vain = in_vain.or_else(|| waiting.settling.get(&change.lba).map(|settling| settling.word));
        }
        drop(waiting);
        // No record has the word that was replaced, so its data block is free at once.
        if let Some(word) = in_vain.map(|word| self.segments.decode(change.lba, word)).transpose()?.flatten()
        {
            self.spares.put_back(self.medium(), word.block);
        }
        Ok(())
    }

    /// Makes durable what the cache holds.
    pub(crate) fn settle(&self, cache: &Cache) -> Result<(), BlocksError> {
        if bugs::FLUSH_NOT_AWAITED.is_active() && hold(&cache.waiting, self.medium()).newer.is_empty() {
            return Ok(());
        }
        // A flush that finds the cache empty has waited for the one that emptied it.
        let _one = hold(&cache.flushing, self.medium());
        self.log.check_accepts_records()?;
        let settling = self.begin_settling(cache);
        let changes = self.changes_of(&settling)?;
        if changes.is_empty() {
            return Ok(());
        }
        // No record has them yet.
        let old = self.old_words(cache, &changes).inspect_err(|_| self.unsettle(cache))?;
        let sequences = self.log_changes(&changes)?;
        let mut waiting = hold(&cache.waiting, self.medium());
        waiting.settling.clear();
        for (change, sequence) in changes.iter().zip(&sequences) {
            if !bugs::FORGOTTEN_BEFORE_CHECKPOINT.is_active() {
                let logged = Logged { word: change.stored_word(), sequence: *sequence };
                waiting.logged.insert(change.lba, logged);
            }
        }
        drop(waiting);
        for (old, sequence) in old.into_iter().zip(sequences) {
            self.spares.retire(self.medium(), sequence, old.into_iter().map(|word| word.block));
        }
        Ok(())
    }

    /// Moves the newer map words to those that settle, and returns them.
    fn begin_settling(&self, cache: &Cache) -> BTreeMap<u64, Newer> {
        let mut waiting = hold(&cache.waiting, self.medium());
        waiting.prune(self.log.checkpointed());
        let newer = std::mem::take(&mut waiting.newer);
        #[cfg(lode_bugs)]
        let newer = if bugs::FLUSH_OF_OWN_WRITES.is_active() {
            let me = lode_pmem::biased::Owner::current();
            let (own, other) = newer.into_iter().partition(|(_, newer)| newer.by == me);
            waiting.newer = other;
            own
        } else {
            newer
        };
        waiting.settling = newer;
        waiting.settling.clone()
    }

    /// Makes the map words that settle newer ones again, apart from those that were replaced meanwhile.
    fn unsettle(&self, cache: &Cache) {
        let mut in_vain = Vec::new();
        let mut waiting = hold(&cache.waiting, self.medium());
        for (lba, settling) in std::mem::take(&mut waiting.settling) {
            match waiting.newer.entry(lba) {
                Entry::Vacant(newer) => drop(newer.insert(settling)),
                Entry::Occupied(_) => in_vain.push((lba, settling.word)),
            }
        }
        drop(waiting);
        for (lba, word) in in_vain {
            if let Ok(Some(word)) = self.segments.decode(lba, word) {
                self.spares.put_back(self.medium(), word.block);
            }
        }
    }

    fn changes_of(&self, words: &BTreeMap<u64, Newer>) -> Result<Vec<Change>, BlocksError> {
        let change = |(lba, newer): (&u64, &Newer)| {
            Ok(Change { lba: *lba, word: self.segments.decode(*lba, newer.word)? })
        };
        words.iter().map(change).collect()
    }

    /// Returns the map words that the changes replace: that of the log, or of the pool if the log has none. One flush at a
    /// time asks, and nothing else changes these words.
    fn old_words(&self, cache: &Cache, changes: &[Change]) -> Result<Vec<Option<BlockMapWord>>, BlocksError> {
        let old = |change: &Change| {
            let logged =
                hold(&cache.waiting, self.medium()).logged.get(&change.lba).map(|logged| logged.word);
            match logged.filter(|_| !bugs::OLD_WORD_OF_POOL.is_active()) {
                Some(word) => Ok(self.segments.decode(change.lba, word)?),
                None => self.pool_word(change.lba),
            }
        };
        changes.iter().map(old).collect()
    }

    /// Makes changes durable, and returns the number of the record of each.
    ///
    /// # Cost
    /// One sync, for contents and records, even if the changes need several records.
    fn log_changes(&self, changes: &[Change]) -> Result<Vec<u64>, BlocksError> {
        let max = changes_max(self.log.record_words_max());
        let count = changes.len().div_ceil(max);
        let mut sequences = Vec::with_capacity(changes.len());
        for (index, changes) in changes.chunks(max).enumerate() {
            let mut hooks = IsFollowed(index + 1 < count);
            let scope = FaultScope::open();
            let committed = with_record(&self.segments, changes, |record| {
                self.log.commit_in(&scope, record, &[], &mut hooks)
            });
            // The error of the commit reports the fault.
            let _ = scope.close();
            let sequence = committed?.expect("no hook gives up the commit");
            sequences.extend(changes.iter().map(|_| sequence));
        }
        Ok(sequences)
    }
}
