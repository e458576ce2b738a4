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
enum News<T> {
    Begun { thread: usize, what: T },
    Revised { ticket: usize, what: T },
    Ended { ticket: usize, outcome: Outcome },
}

/// A note, and the number of events before it.
#[derive(Debug)]
pub(crate) struct Note<T> {
    at: usize,
    news: News<T>,
}

/// The notes of a run.
#[derive(Debug)]
pub(crate) struct History<T> {
    medium: Arc<SimMedium>,
    notes: Mutex<(Vec<Note<T>>, usize)>,
}

impl<T> History<T> {
    /// Returns a history without notes, of a run on `medium`.
    pub(crate) fn new(medium: Arc<SimMedium>) -> History<T> {
        History { medium, notes: Mutex::new((Vec::new(), 0)) }
    }

    /// Returns the notes, in order.
    pub(crate) fn into_notes(self) -> Vec<Note<T>> {
        self.notes.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }

    fn notes(&self) -> MutexGuard<'_, (Vec<Note<T>>, usize)> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, news: News<T>) {
        let at = self.medium.tape().position();
        self.notes().0.push(Note { at, news });
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
        self.history.add(News::Begun { thread: self.thread, what });
        let mut notes = self.history.notes();
        notes.1 += 1;
        Ticket(notes.1 - 1)
    }

    /// Notes the actual effect of the operation, if that depends on the values that it reads.
    pub fn revise(&self, ticket: Ticket, what: T) {
        self.history.add(News::Revised { ticket: ticket.0, what });
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
        self.history.add(News::Ended { ticket: ticket.0, outcome });
    }
}

/// A moment at which power may be cut, with the operations that had begun by then.
#[derive(Clone, Debug)]
pub struct Moment<T> {
    operations: Vec<Operation<T>>,
    notes: usize,
}

impl<T: Clone> Moment<T> {
    /// Returns the moment before the run.
    pub(crate) fn start() -> Moment<T> {
        Moment { operations: Vec::new(), notes: 0 }
    }

    /// Returns a moment with these operations, for tests of oracles.
    #[cfg(test)]
    pub(crate) fn of(operations: Vec<Operation<T>>) -> Moment<T> {
        Moment { operations, notes: 0 }
    }

    /// Returns the operations, in the order in which they began.
    pub fn operations(&self) -> &[Operation<T>] {
        &self.operations
    }

    /// Returns the number of notes so far. It changes with each note.
    pub(crate) fn notes(&self) -> usize {
        self.notes
    }

    /// Advances to the moment after event number `at`. Returns true if there were any notes until then.
    pub(crate) fn advance(&mut self, notes: &[Note<T>], at: usize) -> bool {
        let before = self.notes;
        while let Some(note) = notes.get(self.notes).filter(|note| note.at <= at) {
            match &note.news {
                News::Begun { thread, what } => self.operations.push(Operation {
                    thread: *thread,
                    what: what.clone(),
                    begun: self.notes,
                    ended: None,
                    outcome: Outcome::InFlight,
                }),
                News::Revised { ticket, what } => self.operations[*ticket].what = what.clone(),
                News::Ended { ticket, outcome } => {
                    self.operations[*ticket].ended = Some(self.notes);
                    self.operations[*ticket].outcome = *outcome;
                }
            }
            self.notes += 1;
        }
        self.notes != before
    }
}
