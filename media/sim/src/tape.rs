//! The tape: the calls of the medium, in order.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One event of the medium. Words and units are counted from the start of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
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

impl Event {
    /// Returns the number and the new value of the word that the event stored.
    pub(crate) fn word(self) -> Option<(u32, u64)> {
        match self {
            Event::Store { word, value }
            | Event::Copy { word, value, .. }
            | Event::Log { word, value, .. } => Some((word, value)),
            Event::Flush { .. } | Event::Drain { .. } | Event::Synced { .. } | Event::SyncFailed { .. } => {
                None
            }
        }
    }
}

/// Highest number of events of one run. More means that the engine does not end.
const EVENTS_MAX: usize = 1 << 22;

/// A growing list of events.
#[derive(Debug, Default)]
pub(crate) struct Tape(Mutex<Vec<Event>>);

impl Tape {
    /// Appends the events that `record` pushes.
    pub(crate) fn with(&self, record: impl FnOnce(&mut Vec<Event>)) {
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

    /// Takes the events off the tape.
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events())
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
