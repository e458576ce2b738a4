//! The commit of a transaction over memory that its program stores to in place.

use super::claims::Claims;
use super::snapshots::Snapshots;
use super::transaction::Transaction;
use super::units::UnitState;
use super::{Cover, CoverError, HEAD_WORDS};
use crate::{CommitHooks, LogError, bugs};
use lode_layout::{PoolOffset, RECORD_HEADER_WORDS, RECORD_LINE_WORDS, Record, WORD};
use lode_pmem::sync::SpinMutexGuard;
use lode_pmem::{FaultScope, Medium};

/// Length in bytes up to which a new object's content goes into the record of its transaction.
const LOGGED_OBJECT_MAX: u64 = 1024;

/// The rest that a commit makes durable, beside the ranges of its transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes<'a> {
    /// New objects, and other bytes that the program has stored to without an old state: offsets and lengths.
    pub objects: &'a [(PoolOffset, u64)],
    /// Words that the library stores where programs store, too, when the record is durable: links to new objects.
    pub words: &'a [(PoolOffset, u64)],
    /// Entries that are written back when the record is durable: words and bits of which only the library knows.
    pub entries: &'a [u64],
}

impl<M: Medium> Transaction<'_, M> {
    /// Makes what the program has stored in its ranges durable, and `changes`.
    ///
    /// # Errors
    /// [`CoverError::TooLarge`] when the entries do not fit into the record, [`CoverError::OutOfRange`]: the transaction is aborted.
    /// [`CoverError::Log`] as [`Log::commit`](crate::Log::commit).
    ///
    /// # Durability
    /// Durable on return. After a crash before the return, all of it is there or nothing.
    ///
    /// # Cost
    /// One drain; none if there is nothing to make durable. Another one for each object of more than 1 KiB.
    pub fn commit(mut self, changes: Changes<'_>) -> Result<(), CoverError> {
        let words = changes.words.iter().map(|(at, _)| (*at, WORD));
        for (at, len) in changes.objects.iter().copied().chain(words) {
            self.cover.check_range(at, len)?;
            self.cover.check_readable(self.cover.covered.units.of(at, len))?;
        }
        let of_word = HEAD_WORDS + self.cover.covered.units.unit_len() / WORD + HEAD_WORDS;
        let fixed = RECORD_HEADER_WORDS + changes.entries.len();
        let mut words = fixed as u64 + self.words + changes.words.len() as u64 * of_word;
        let room = self.cover.log.record_words_max() as u64;
        if words > room {
            return Err(CoverError::TooLarge { needed: words * WORD, room: room * WORD });
        }
        if words == RECORD_HEADER_WORDS as u64 && changes.objects.is_empty() {
            self.cover.covered.open.leave(self.place, self.cover.medium());
            self.has_ended();
            return Ok(());
        }
        let scope = FaultScope::open();
        let claims = Claims::new(self.cover, &scope);
        let mut logged = Vec::new();
        for (at, len) in changes.objects {
            let units = self.cover.covered.units.of(*at, *len);
            let of_object = len.div_ceil(WORD) + HEAD_WORDS + claims.image_words(units.end - units.start);
            if *len <= LOGGED_OBJECT_MAX && words + of_object <= room {
                words += of_object;
                logged.push((*at, *len));
            } else if bugs::LARGE_OBJECT_FLUSHED.is_active() {
                self.cover.medium().flush(*at, *len);
            } else {
                // ORDER: the content is durable before the record that makes the object one. Stop here: free space has changed.
                self.cover.persist(*at, *len)?;
            }
        }
        let (cover, place) = (self.cover, self.place);
        let changes = Changes { objects: &logged, ..changes };
        let mut hooks = Composer { cover, place, claims, changes, words };
        let mut record = cover.covered.open.snapshots(place, cover.medium()).take_record();
        let committed = cover.log.commit_in(&scope, &mut record, &[], &mut hooks);
        let faultless = scope.close();
        cover.covered.open.snapshots(place, cover.medium()).spare(record);
        // After an error the record may be durable, so nothing is put back. The next open decides.
        self.has_ended();
        if committed?.is_none() {
            return Err(LogError::Poisoned.into());
        }
        if bugs::OPEN_AFTER_COMMIT.is_active() {
            cover.medium().relax(0);
            cover.covered.open.leave(place, cover.medium());
        }
        Ok(faultless?)
    }
}

/// Composes the record of a commit when it has its number.
struct Composer<'c, M: Medium> {
    cover: &'c Cover<M>,
    place: usize,
    claims: Claims<'c, M>,
    changes: Changes<'c>,
    /// The most words of the record.
    words: u64,
}

impl<M: Medium> Composer<'_, M> {
    /// Says that the transaction can't be aborted any more, and returns its snapshots.
    fn begin_commit(&self) -> SpinMutexGuard<'_, Snapshots> {
        let mut snapshots = self.cover.covered.open.snapshots(self.place, self.cover.medium());
        snapshots.begin_commit(self.changes.words);
        snapshots
    }

    /// Adds the content of a range to the record.
    fn push(&self, record: &mut Record, at: PoolOffset, len: u64) {
        let states = &self.cover.covered.units;
        let (at, len) = match bugs::UNIT_LOGGED_WHOLE.is_active() {
            true => states.place(states.of(at, len).start, states.of(at, len).count() as u64),
            false => (at, len),
        };
        record.push_at_home_with(at, len, |bytes| self.claims.memory().read(at, bytes));
    }
}

impl<M: Medium> CommitHooks for Composer<'_, M> {
    fn padded_len_max(&self, _record: &Record) -> usize {
        if bugs::UNIT_LOGGED_WHOLE.is_active() {
            return self.cover.log.record_words_max();
        }
        (self.words as usize).next_multiple_of(RECORD_LINE_WORDS)
    }

    fn admits(&mut self, _closed: u64) -> bool {
        if !self.claims.admit() {
            return false;
        }
        if !self.cover.log.is_grouped() {
            // ORDER: before the number is drawn: a persist with a later one sees it, and waits for the end of the commit.
            drop(self.begin_commit());
        }
        true
    }

    fn compose(&mut self, record: &mut Record) {
        record.clear();
        let states = &self.cover.covered.units;
        let words = self.changes.words.iter().map(|(at, _)| (*at, WORD));
        for (at, len) in self.changes.objects.iter().copied().chain(words) {
            let units = states.of(at, len);
            if !bugs::OBJECT_NOT_CLAIMED.is_active() {
                self.claims.push_images(
                    record,
                    units.filter(|unit| matches!(states.state(*unit), UnitState::Free | UnitState::Old)),
                );
            }
        }
        self.begin_commit().ranges().for_each(|(at, len)| self.push(record, at, len));
        for (at, len) in self.changes.objects {
            record.push_at_home_with(*at, *len, |bytes| self.claims.memory().read(*at, bytes));
        }
        self.changes.words.iter().for_each(|(at, word)| record.push_word(*at, *word));
        record.push_entries(self.changes.entries);
        self.claims.check_content(record);
    }

    fn finished(&mut self) {
        self.claims.cover();
        if !bugs::OPEN_AFTER_COMMIT.is_active() {
            // ORDER: forgotten while the lane is held: the next checkpoint covers the record, and must not log the old bytes anew.
            self.cover.covered.open.leave(self.place, self.cover.medium());
        }
    }
}
