//! The volatile cache: on a medium that is durable by syncs, map words wait in DRAM for the sync of their contents, and then
//! for the checkpoint that stores them.
//!
//! ```text
//!   write:       content -> data block, in the page cache;  map word -> `newer`, visible at once
//!   flush:       newer becomes `settling` -> record -> SYNC, contents and record -> `logged`
//!   checkpoint:  the log stores the map words of its records -> SYNC -> slot -> SYNC;  they leave `logged` at the next flush
//! ```

use lode_pmem::sync::SpinMutex;
use lode_pmem::{Medium, hold};
use std::collections::BTreeMap;

/// A map word that no durable record has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newer {
    pub(crate) word: u64,
    /// The thread that wrote it.
    #[cfg(lode_bugs)]
    pub(crate) by: lode_pmem::biased::Owner,
}

/// A map word in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub(crate) word: u64,
    /// The number of its record.
    pub(crate) sequence: u64,
}

/// Map words by the number of their block.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Map words since the last flush began.
    pub(crate) newer: BTreeMap<u64, Newer>,
    /// Map words that the running flush makes durable. After a failure they stay: they may be there after a reopening.
    pub(crate) settling: BTreeMap<u64, Newer>,
    /// Durable map words that the pool may not have.
    pub(crate) logged: BTreeMap<u64, Logged>,
    /// The checkpoint whose map words were removed from `logged`.
    pruned_to: u64,
}

impl Waiting {
    /// Removes the map words that the pool has.
    pub(crate) fn prune(&mut self, checkpointed: u64) {
        if self.pruned_to != checkpointed {
            self.pruned_to = checkpointed;
            self.logged.retain(|_, logged| logged.sequence > checkpointed);
        }
    }
}

/// The volatile cache of some blocks.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) waiting: SpinMutex<Waiting>,
    /// Held by the flush that runs.
    pub(crate) flushing: SpinMutex<()>,
}

impl Cache {
    /// Returns the newest map word of a block, or `None` if the pool has it.
    pub(crate) fn word<M: Medium>(&self, medium: &M, lba: u64) -> Option<u64> {
        let waiting = hold(&self.waiting, medium);
        let newer = waiting.newer.get(&lba).or_else(|| waiting.settling.get(&lba));
        newer.map(|newer| newer.word).or_else(|| waiting.logged.get(&lba).map(|logged| logged.word))
    }
}
