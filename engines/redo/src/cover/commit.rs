//! The commit of a transaction over memory that its program stores to in place.

use super::claims::Claims;
use super::snapshots::Snapshots;
use super::transaction::Transaction;
use super::units::UnitState;
use super::{Cover, CoverError, HEAD_WORDS, Mode};
use crate::{CommitHooks, ContinuedRange, DirtyLines, LogError, bugs};
use lode_layout::{PoolOffset, RECORD_HEADER_WORDS, RECORD_LINE_WORDS, Record, WORD};
use lode_pmem::biased::BiasedGuard;
use lode_pmem::{FaultScope, Medium};
use std::borrow::Cow;

/// Length in bytes up to which a new object's content goes into the record of its transaction: 1 KiB, and a header.
const LOGGED_OBJECT_MAX: u64 = 1024 + 16;

/// The rest that a commit makes durable, beside the ranges of its transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes<'a> {
    /// New objects, and other bytes that the program has stored to without an old state: offsets and lengths.
    pub objects: &'a [(PoolOffset, u64)],
    /// Words that the library stores where programs store, too, when the record is durable: links to new objects.
    pub words: &'a [(PoolOffset, u64)],
    /// Entries that are written back when the record is durable: words and bits of which only the library knows.
    pub entries: &'a [u64],
    /// The ranges outside of the log to which [`Continue`](lode_layout::Entry::Continue) entries among these lead, with entries of the same
    /// kind. Their content is durable at home, and nothing else uses the ranges before the next checkpoint.
    pub continued: &'a [ContinuedRange],
}

impl Changes<'_> {
    /// Returns the ranges of objects and words.
    #[inline]
    fn beside_ranges(&self) -> impl Iterator<Item = (PoolOffset, u64)> + Clone {
        let words = self.words.iter().map(|(at, _)| (*at, WORD));
        self.objects.iter().copied().chain(words)
    }
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
    /// One drain; none if there is nothing to make durable. Another one for each object of more than 1 KiB. In careful mode two, and two more
    /// for words.
    pub fn commit(mut self, changes: Changes<'_>) -> Result<(), CoverError> {
        let beside_ranges = changes.beside_ranges();
        if beside_ranges.clone().next().is_some() {
            beside_ranges.clone().try_for_each(|(at, len)| self.cover.check_range(at, len))?;
            self.cover.check_readable(beside_ranges)?;
        }
        if self.cover.mode == Mode::Careful {
            return self.commit_carefully(&changes);
        }
        let of_word = HEAD_WORDS + self.cover.covered.units.unit_len() / WORD + HEAD_WORDS;
        let fixed = RECORD_HEADER_WORDS + changes.entries.len();
        let mut words = fixed as u64 + self.open.words + changes.words.len() as u64 * of_word;
        let room = self.cover.limits.record_words();
        if words > room {
            return Err(self.cover.too_large(words));
        }
        if words == RECORD_HEADER_WORDS as u64 && changes.objects.is_empty() {
            self.cover.leave(self.open.place);
            self.has_ended();
            return Ok(());
        }
        let scope = FaultScope::open();
        let place = self.open.place;
        let mut buffers = self.cover.covered.open.snapshots(place, self.cover.medium()).take_buffers();
        let claims = Claims::new(self.cover, &scope, Some(place), &mut buffers.units);
        let mut fits = |(at, len): &(PoolOffset, u64)| {
            let units = self.cover.covered.units.of(*at, *len);
            let of_object = len.div_ceil(WORD) + HEAD_WORDS + claims.image_words(units.end - units.start);
            let fits = *len <= LOGGED_OBJECT_MAX && words + of_object <= room;
            words += if fits { of_object } else { 0 };
            fits
        };
        let first = changes.objects.iter().take_while(|object| fits(object)).count();
        // Mostly all of them.
        let mut logged = Cow::Borrowed(&changes.objects[..first]);
        for (at, len) in &changes.objects[first..] {
            if fits(&(*at, *len)) {
                logged.to_mut().push((*at, *len));
            } else if bugs::LARGE_OBJECT_FLUSHED.is_active() {
                self.cover.medium().flush(*at, *len);
            } else {
                // ORDER: the content is durable before the record that makes the object one. Stop here: free space has changed.
                self.cover.persist(*at, *len)?;
            }
        }
        let cover = self.cover;
        let continued = changes.continued;
        let changes = Changes { objects: &logged, ..changes };
        let mut hooks = Composer { cover, place, claims, changes, words, at_home_end: 0 };
        let committed = cover.log.commit_in(&scope, &mut buffers.record, continued, &mut hooks);
        let faultless = scope.close();
        cover.covered.open.snapshots(place, cover.medium()).spare(buffers);
        if matches!(committed, Ok(None)) && !cover.has_failed() {
            return Err(cover.too_large(words));
        }
        // After an error the record may be durable, so nothing is put back. The next open decides.
        self.has_ended();
        if committed?.is_none() {
            return Err(LogError::Poisoned.into());
        }
        if bugs::OPEN_AFTER_COMMIT.is_active() {
            cover.medium().relax(0);
            cover.leave(place);
        }
        Ok(faultless?)
    }

    fn commit_carefully(mut self, changes: &Changes<'_>) -> Result<(), CoverError> {
        self.cover.check_settled(changes)?;
        self.cover.flush_stored(self.open.place, changes.objects)?;
        let settled = self.cover.settle_committed(self.open.place, changes);
        if matches!(settled, Err(CoverError::TooLarge { .. })) {
            return settled;
        }
        // After another error the record may be durable, so nothing is put back. The next open decides.
        self.has_ended();
        settled.inspect_err(|_| self.cover.log.fail())
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
    /// Number of words of the entries that are at home, the first ones.
    at_home_end: usize,
}

impl<M: Medium> Composer<'_, M> {
    /// Says that the transaction can't be aborted any more, and returns its snapshots.
    fn begin_commit(&self) -> BiasedGuard<'_, Snapshots> {
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
        for (at, len) in self.changes.beside_ranges() {
            let units = states.of(at, len);
            if !bugs::OBJECT_NOT_CLAIMED.is_active() {
                self.claims.push_images(
                    record,
                    units.filter(|unit| matches!(states.state(*unit), UnitState::Free | UnitState::Old)),
                );
            }
        }
        let snapshots = match self.cover.log.is_grouped() {
            true => self.begin_commit(),
            false => self.cover.covered.open.snapshots(self.place, self.cover.medium()),
        };
        snapshots.each_range(|at, len| self.push(record, at, len));
        drop(snapshots);
        for (at, len) in self.changes.objects {
            record.push_at_home_with(*at, *len, |bytes| self.claims.memory().read(*at, bytes));
        }
        self.at_home_end = record.body().len();
        self.changes.words.iter().for_each(|(at, word)| record.push_word(*at, *word));
        record.push_entries(self.changes.entries);
        self.claims.check_content(record);
    }

    fn to_write_back<'e>(&mut self, entries: &'e [u64], dirty: Option<&mut DirtyLines>) -> &'e [u64] {
        if let Some(dirty) = dirty {
            let snapshots = self.cover.covered.open.snapshots(self.place, self.cover.medium());
            snapshots.each_range(|at, len| dirty.add(at, len));
            self.changes.objects.iter().for_each(|(at, len)| dirty.add(*at, *len));
        }
        entries.get(self.at_home_end..).unwrap_or_default()
    }

    fn finished(&mut self, exclusive: bool) {
        self.claims.cover(exclusive);
        if !bugs::OPEN_AFTER_COMMIT.is_active() {
            // ORDER: forgotten while the lane is held: the next checkpoint covers the record, and must not log the old bytes anew.
            self.cover.leave(self.place);
        }
    }
}
