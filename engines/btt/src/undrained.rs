//! Map entries that are visible and flushed, and that no drain has made durable yet.

use lode_layout::{PoolOffset, WORD};
use lode_pmem::Medium;
use lode_pmem::biased::Owner;

/// A word of the map that a thread stored and flushed, and has perhaps not drained since.
///
/// A drain completes the flushes of its own thread. So the next drain of `by` makes the word durable, and any other
/// thread has to flush the word again before its own drain does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undrained {
    word: PoolOffset,
    by: Owner,
}

impl Undrained {
    /// Notes that the calling thread has flushed `word`.
    pub(crate) fn new(word: PoolOffset) -> Undrained {
        Undrained { word, by: Owner::current() }
    }

    /// Makes sure that the next drain of the calling thread makes the word durable.
    pub(crate) fn join_drain<M: Medium>(self, medium: &M) {
        if self.by != Owner::current() {
            medium.flush(self.word, WORD);
        }
    }
}

/// The state of a stripe of the map, and its words that may not be durable.
#[derive(Debug, Default)]
pub(crate) struct Stripe {
    last: Option<Undrained>,
    /// Others that the same batch stored.
    others: Vec<Undrained>,
    /// True after a write in doubt: of its flog entry and that of a later write, recovery could not tell the newer one.
    pub(crate) is_in_doubt: bool,
}

impl Stripe {
    /// Makes sure that the next drain of the calling thread makes all words durable.
    pub(crate) fn join_drain<M: Medium>(&self, medium: &M) {
        self.last.iter().chain(&self.others).for_each(|undrained| undrained.join_drain(medium));
    }

    /// Notes that all words are durable.
    pub(crate) fn clear(&mut self) {
        self.last = None;
        self.others.clear();
    }

    /// Notes a word that the calling thread has flushed.
    pub(crate) fn note(&mut self, undrained: Undrained) {
        self.others.extend(self.last.replace(undrained));
    }
}
