//! The trace: the calls of the medium, in order.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One event of the medium. Words and units are counted from the start of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediumEvent {
    /// A word was stored through the cache.
    Store { word: u32, value: u64 },
    /// A word was stored past the cache.
    Copy { word: u32, value: u64, thread: u8 },
    /// A word of a log write was stored through the page cache; `last` ends a sector, which is written whole.
    Log { word: u32, value: u64, last: bool },
    /// The write-back of the units from `first` to `last` was started.
    Flush { first: u32, last: u32, thread: u8 },
    /// A thread waited for its flushes and copies.
    Drain { thread: u8 },
    /// The kernel wrote the units from `first` to `last`.
    Synced { first: u32, last: u32 },
    /// The kernel failed to write some of the units from `first` to `last`, and forgot that they were dirty.
    SyncFailed { first: u32, last: u32 },
}

impl MediumEvent {
    /// Returns the number and the new value of the word that the event stored.
    pub(crate) fn word(self) -> Option<(u32, u64)> {
        match self {
            MediumEvent::Store { word, value }
            | MediumEvent::Copy { word, value, .. }
            | MediumEvent::Log { word, value, .. } => Some((word, value)),
            MediumEvent::Flush { .. }
            | MediumEvent::Drain { .. }
            | MediumEvent::Synced { .. }
            | MediumEvent::SyncFailed { .. } => None,
        }
    }
}

/// Highest number of events of one run. More means that the engine does not end.
const EVENTS_MAX: usize = 1 << 22;

/// A growing list of events.
#[derive(Debug, Default)]
pub(crate) struct Trace(Mutex<Vec<MediumEvent>>);

impl Trace {
    /// Appends the events that `record` pushes.
    pub(crate) fn with(&self, record: impl FnOnce(&mut Vec<MediumEvent>)) {
        let mut events = self.events();
        record(&mut events);
        let count = events.len();
        drop(events);
        assert!(count <= EVENTS_MAX, "the engine made {count} stores, flushes and drains and does not end");
    }

    /// Returns the number of events so far.
    pub(crate) fn position(&self) -> usize {
        self.events().len()
    }

    /// Takes the events.
    pub(crate) fn take(&self) -> Vec<MediumEvent> {
        std::mem::take(&mut self.events())
    }

    fn events(&self) -> MutexGuard<'_, Vec<MediumEvent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
