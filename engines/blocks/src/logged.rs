//! Map words that the log has and the pool may not have, on a medium that is durable by syncs.
//!
//! ```text
//!   write:       content -> data block;  record -> log, both in the page cache;  map word -> here, visible at once
//!   flush:       SYNC, contents and records
//!   checkpoint:  the log stores the map words of its records -> SYNC -> slot -> SYNC
//! ```
//!
//! A power cut may lose writes since the last flush: recovery drops a record whose content is not there, and those after a
//! record that is missing. The end of the process loses none.

use crate::bugs;
use crate::change::Change;
use lode_pmem::sync::SpinMutex;
use lode_pmem::{Medium, hold};
use std::collections::BTreeMap;
use std::mem;

#[derive(Debug, Default)]
struct State {
    /// Map words by the number of their block, since the last checkpoint.
    newer: BTreeMap<u64, u64>,
    /// Those from the checkpoint before to the last one. Some of them got their numbers while the last one ran.
    older: BTreeMap<u64, u64>,
    /// The number of the last checkpoint.
    checkpointed: u64,
}

/// The map words of the log. Reads look here first, so nothing long is done under the lock.
#[derive(Debug, Default)]
pub(crate) struct LoggedWords(SpinMutex<State>);

impl LoggedWords {
    /// Returns the map word of a block, or `None` if the pool has it.
    pub(crate) fn word<M: Medium>(&self, medium: &M, lba: u64) -> Option<u64> {
        let state = hold(&self.0, medium);
        state.newer.get(&lba).or_else(|| state.older.get(&lba)).copied()
    }

    /// Adds the map words of a record that has its place in the log. The last checkpoint has the number `checkpointed`, which
    /// was asked after that. The caller holds the locks of the blocks from before the record got its number.
    pub(crate) fn add<M: Medium>(&self, medium: &M, changes: &[Change], checkpointed: u64) {
        let mut state = hold(&self.0, medium);
        let mut covered = BTreeMap::new();
        if checkpointed > state.checkpointed {
            state.checkpointed = checkpointed;
            // The records of the older ones had their numbers when the checkpoint before this one ended.
            let newer = mem::take(&mut state.newer);
            covered = mem::replace(&mut state.older, newer);
        }
        if !bugs::FORGOTTEN_BEFORE_CHECKPOINT.is_active() {
            state.newer.extend(changes.iter().map(|change| (change.lba, change.stored_word())));
        }
        drop(state);
        drop(covered);
    }
}
