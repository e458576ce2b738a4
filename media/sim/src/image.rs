//! A reusable medium: it turns one image into the next by changing only the words that differ.

use crate::schedule::message;
use crate::trace::MediumEvent;
use crate::{Machine, SimMedium, Subject};
use lode_layout::{LINE, PoolOffset, WORD};
use lode_pmem::{Fault, FaultScope, Medium};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The reasons why a recovery fails the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryFailure {
    /// The recovered content is not legal.
    Illegal {
        /// The difference, in the words of the subject.
        mismatch: String,
    },
    /// The recovery returned an error.
    Refused {
        /// Number of the recovery: 1 for the first, 2 for the one after it.
        round: u8,
        /// The error of the subject.
        error: String,
    },
    /// The recovery panicked.
    Panicked {
        /// Number of the recovery: 1 for the first, 2 for the one after it.
        round: u8,
        /// Message of the panic.
        message: String,
    },
    /// The recovery returned a content although it had read outside of the memory.
    Fault {
        /// Number of the recovery: 1 for the first, 2 for the one after it.
        round: u8,
        /// The first failed access.
        fault: Fault,
    },
    /// A second recovery found another content than the first.
    Unstable {
        /// The content after the first recovery.
        first: String,
        /// The content after the second recovery.
        second: String,
    },
}

impl fmt::Display for RecoveryFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryFailure::Illegal { mismatch } => f.write_str(mismatch),
            RecoveryFailure::Refused { round, error } => write!(f, "recovery {round} refused: {error}"),
            RecoveryFailure::Panicked { round, message } => write!(f, "recovery {round} panicked: {message}"),
            RecoveryFailure::Fault { round, fault } => {
                write!(f, "recovery {round} did not notice that {fault}")
            }
            RecoveryFailure::Unstable { first, second } => {
                write!(f, "the second recovery found other contents: first {first}, then {second}")
            }
        }
    }
}

/// A medium that holds an image, and the image without the stores of recoveries.
#[derive(Debug)]
pub(crate) struct Image {
    medium: Arc<SimMedium>,
    rest: Vec<u64>,
    unit_words: usize,
}

impl Image {
    /// Returns zeroed memory of `len` bytes.
    pub(crate) fn new(len: u64, machine: Machine) -> io::Result<Image> {
        let medium = Arc::new(SimMedium::new(len, machine)?);
        let unit_words = (machine.unit() / WORD) as usize;
        Ok(Image { medium, rest: vec![0; (len / WORD) as usize], unit_words })
    }

    /// Returns the words of the image.
    pub(crate) fn words(&self) -> &[u64] {
        &self.rest
    }

    /// Lays down the content of the whole medium.
    pub(crate) fn load(&mut self, content: &[u64]) {
        self.store_words(0, content);
    }

    /// Lays down the content of one unit.
    #[inline]
    pub(crate) fn store_unit(&mut self, unit: u32, content: &[u64]) {
        self.store_words(unit as usize * self.unit_words, content);
    }

    #[inline]
    fn store_words(&mut self, first: usize, content: &[u64]) {
        let rest = &mut self.rest[first..first + content.len()];
        for (index, (old, new)) in rest.iter_mut().zip(content).enumerate() {
            if old != new {
                *old = *new;
                self.medium.memory().store8(PoolOffset::new((first + index) as u64 * WORD), *new);
            }
        }
    }

    /// Recovers twice, compares and checks the contents, and undoes the stores of the recoveries.
    pub(crate) fn check<S: Subject>(&mut self, subject: &S, legal: &S::Legal) -> Result<(), RecoveryFailure> {
        let found = recover_twice(&self.medium, subject, legal);
        self.undo();
        found
    }

    /// Lends the medium with the image to `visit`, and undoes the stores of `visit`.
    pub(crate) fn with_medium(&mut self, visit: impl FnOnce(&SimMedium)) {
        visit(&self.medium);
        self.undo();
    }

    /// Recovers once, records the events of the recovery, and undoes its stores.
    pub(crate) fn record<S: Subject>(&mut self, subject: &S) -> Result<Vec<MediumEvent>, RecoveryFailure> {
        self.medium.record(true);
        let found = recover(&self.medium, subject, 1);
        self.medium.record(false);
        self.undo();
        let events = self.medium.trace().take();
        found.map(|_| events)
    }

    fn undo(&mut self) {
        let line_words = (LINE / WORD) as usize;
        self.medium.touched().take(|line| {
            let first = line as usize * line_words;
            for (index, word) in self.rest[first..first + line_words].iter().enumerate() {
                self.medium.memory().store8(PoolOffset::new((first + index) as u64 * WORD), *word);
            }
        });
    }
}

/// Recovers twice, compares and checks the contents.
pub(crate) fn recover_twice<S: Subject>(
    medium: &Arc<SimMedium>,
    subject: &S,
    legal: &S::Legal,
) -> Result<(), RecoveryFailure> {
    let first = recover(medium, subject, 1)?;
    subject
        .check(legal, &first)
        .map_err(|mismatch| RecoveryFailure::Illegal { mismatch: mismatch.to_string() })?;
    let second = recover(medium, subject, 2)?;
    if first != second {
        return Err(RecoveryFailure::Unstable { first: format!("{first:?}"), second: format!("{second:?}") });
    }
    Ok(())
}

/// Recovers for the time `round`, from 1.
pub(crate) fn recover<S: Subject>(
    medium: &Arc<SimMedium>,
    subject: &S,
    round: u8,
) -> Result<S::Contents, RecoveryFailure> {
    let medium = medium.clone();
    let scope = FaultScope::open();
    let found = catch_unwind(AssertUnwindSafe(|| subject.recover(medium)));
    let left = scope.close();
    let found = found.map_err(|payload| {
        let message = message(payload).unwrap_or_default();
        RecoveryFailure::Panicked { round, message }
    })?;
    let found = found.map_err(|error| RecoveryFailure::Refused { round, error: error.to_string() })?;
    left.map(|()| found).map_err(|fault| RecoveryFailure::Fault { round, fault })
}
