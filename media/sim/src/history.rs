//! The history of a run: the begin and return of each operation, and the stores between.

use crate::SimMedium;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Progress of an operation before the power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It had begun. It may be there whole, or not at all.
    InFlight,
    /// It had returned. It must be there.
    Returned,
    /// It had returned an error that promises nothing, such as that of a failed sync. It may be there or not, as for
    /// `InFlight`, but operations that begin later come later.
    InDoubt,
    /// It had returned an error that promises that nothing was done. It must not be there.
    Refused,
}

/// An operation as seen at a power cut.
#[derive(Clone, Debug)]
pub struct Operation<T> {
    /// The logical thread that ran the operation.
    pub thread: usize,
    /// Description of the operation, as noted by [`Actor::begin`] or changed by [`Actor::revise`].
    pub what: T,
    /// Time of its begin, in notes since the start of the run.
    pub begun: usize,
    /// Time of its return, in notes since the start of the run; `None` while it is in flight.
    pub ended: Option<usize>,
    /// Progress of the operation.
    pub outcome: Outcome,
}

/// Name of an operation between its begin and its end.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Ticket(usize);

#[derive(Debug)]
enum HistoryEvent<T> {
    Begun { thread: usize, what: T },
    Revised { ticket: usize, what: T },
    Ended { ticket: usize, outcome: Outcome },
}

/// An entry of the history, and the number of medium events before it.
#[derive(Debug)]
pub(crate) struct HistoryEntry<T> {
    at: usize,
    event: HistoryEvent<T>,
}

/// The recorder of the history of a run.
#[derive(Debug)]
pub(crate) struct History<T> {
    medium: Arc<SimMedium>,
    entries: Mutex<(Vec<HistoryEntry<T>>, usize)>,
}

impl<T> History<T> {
    /// Returns an empty history of a run on `medium`.
    pub(crate) fn new(medium: Arc<SimMedium>) -> History<T> {
        History { medium, entries: Mutex::new((Vec::new(), 0)) }
    }

    /// Returns the entries, in order.
    pub(crate) fn into_entries(self) -> Vec<HistoryEntry<T>> {
        self.entries.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }

    fn entries(&self) -> MutexGuard<'_, (Vec<HistoryEntry<T>>, usize)> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, event: HistoryEvent<T>) {
        let at = self.medium.trace().position();
        self.entries().0.push(HistoryEntry { at, event });
    }
}

/// A logical thread of a run. It draws its operations from its own seed, and notes each.
#[derive(Debug)]
pub struct Actor<'a, T> {
    /// The number of the logical thread, from 0.
    pub thread: usize,
    /// Number of operations to run.
    pub operations: u64,
    /// Source of the thread's choices, the same for each run with the same seed.
    pub rng: fastrand::Rng,
    history: &'a History<T>,
}

impl<'a, T> Actor<'a, T> {
    pub(crate) fn new(thread: usize, operations: u64, seed: u64, history: &'a History<T>) -> Actor<'a, T> {
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..thread {
            rng = rng.fork();
        }
        Actor { thread, operations, rng, history }
    }

    /// Notes that an operation begins. Call it before the engine is asked.
    pub fn begin(&self, what: T) -> Ticket {
        self.history.add(HistoryEvent::Begun { thread: self.thread, what });
        let mut entries = self.history.entries();
        entries.1 += 1;
        Ticket(entries.1 - 1)
    }

    /// Notes the actual effect of the operation, if that depends on the values that it reads.
    pub fn revise(&self, ticket: Ticket, what: T) {
        self.history.add(HistoryEvent::Revised { ticket: ticket.0, what });
    }

    /// Notes that the operation returned. Call it after the engine has answered.
    pub fn returned(&self, ticket: Ticket) {
        self.end(ticket, Outcome::Returned);
    }

    /// Notes that the operation ended with an error that promises nothing.
    pub fn in_doubt(&self, ticket: Ticket) {
        self.end(ticket, Outcome::InDoubt);
    }

    /// Notes that the operation ended with an error that promises that nothing was done.
    pub fn refused(&self, ticket: Ticket) {
        self.end(ticket, Outcome::Refused);
    }

    fn end(&self, ticket: Ticket, outcome: Outcome) {
        self.history.add(HistoryEvent::Ended { ticket: ticket.0, outcome });
    }
}

/// The history up to a crash point: the operations that had begun by then.
#[derive(Clone, Debug)]
pub struct HistoryPrefix<T> {
    operations: Vec<Operation<T>>,
    entries: usize,
}

impl<T: Clone> HistoryPrefix<T> {
    /// Returns the empty history.
    pub(crate) fn start() -> HistoryPrefix<T> {
        HistoryPrefix { operations: Vec::new(), entries: 0 }
    }

    /// Returns a history of these operations, for oracles of histories that were recorded elsewhere. The operations of
    /// a thread are in the order in which they began.
    pub fn of(operations: Vec<Operation<T>>) -> HistoryPrefix<T> {
        HistoryPrefix { operations, entries: 0 }
    }

    /// Returns the operations, in the order in which they began.
    pub fn operations(&self) -> &[Operation<T>] {
        &self.operations
    }

    /// Returns the number of notes so far. It changes with each note.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Advances to the crash point after event number `at`. Returns true if any operation began or ended until then.
    pub(crate) fn advance(&mut self, entries: &[HistoryEntry<T>], at: usize) -> bool {
        let before = self.entries;
        while let Some(entry) = entries.get(self.entries).filter(|entry| entry.at <= at) {
            match &entry.event {
                HistoryEvent::Begun { thread, what } => self.operations.push(Operation {
                    thread: *thread,
                    what: what.clone(),
                    begun: self.entries,
                    ended: None,
                    outcome: Outcome::InFlight,
                }),
                HistoryEvent::Revised { ticket, what } => self.operations[*ticket].what = what.clone(),
                HistoryEvent::Ended { ticket, outcome } => {
                    self.operations[*ticket].ended = Some(self.entries);
                    self.operations[*ticket].outcome = *outcome;
                }
            }
            self.entries += 1;
        }
        self.entries != before
    }
}
