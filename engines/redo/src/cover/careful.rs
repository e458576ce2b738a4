//! Careful mode: after each call nothing is left that recovery would rewrite, so programs may flush their stores by themselves.
//!
//! ```text
//!   add_range:   keep the old bytes in DRAM -> log them as pending (a fence)
//!   commit:      flush the ranges and new objects, drain -> log that the old bytes are settled, and the library's entries (a fence)
//!                words in programs' memory: log them as pending in the same record -> store, flush, drain -> settled (a fence)
//!   abort:       put the old bytes back, flush, drain -> settled (a fence)
//!   persist:     flush, drain
//!   checkpoint:  log the old bytes of open transactions anew
//! ```

use super::{Changes, Cover, CoverError, HEAD_WORDS};
use crate::{CommitHooks, ContinuedRange, DirtyLines, InDoubtCause, LogError, bugs};
use lode_layout::{CoverEntry, Entry, PoolOffset, RECORD_HEADER_WORDS, RECORD_LINE_WORDS, Record, WORD};
use lode_pmem::{FaultScope, Medium};
use std::ops::Range;

/// Words of a pending or a settled entry.
const MARK_WORDS: u64 = 2;
/// Words of a record beside its content: the header, the mark, and the padding.
const WORDS_BESIDE: u64 = RECORD_HEADER_WORDS as u64 + MARK_WORDS + RECORD_LINE_WORDS as u64;

impl<M: Medium> Cover<M> {
    /// Returns an error if a commit of the changes does not fit into a record.
    pub(super) fn check_settled(&self, changes: &Changes<'_>) -> Result<(), CoverError> {
        let entries = changes.entries.len() as u64 + HEAD_WORDS * changes.words.len() as u64;
        self.check_room(WORDS_BESIDE + MARK_WORDS + entries)
    }

    /// Adds a range of these units to the transaction at `place`: keeps its old bytes, and logs those of them that are new.
    pub(super) fn add_pending(
        &self,
        place: usize,
        range: Range<u64>,
        units: Range<u64>,
    ) -> Result<(), CoverError> {
        let mut snapshots = self.covered.open.snapshots(place, self.medium());
        let addition = snapshots.addition(&range, &units);
        if addition.words == 0 {
            return Ok(());
        }
        self.check_room(WORDS_BESIDE + addition.words)?;
        // A checkpoint puts the ranges of a transaction into few records.
        let beside = if snapshots.held == 0 { WORDS_BESIDE } else { 0 };
        let held = snapshots.held + (beside + addition.words) * WORD;
        if held > snapshots.allowance {
            self.extend(&mut snapshots.allowance, held)?;
        }
        snapshots.held = held;
        let scope = FaultScope::open();
        let mark = snapshots.keep(scope.memory(self.medium().memory()), range.clone(), units, addition);
        if scope.has_fault() {
            snapshots.forget_since(mark);
            return Ok(scope.close()?);
        }
        if snapshots.pending_id == 0 {
            // ORDER: registered before they are logged: a checkpoint in between logs them, too.
            snapshots.pending_id = self.next_id();
        }
        let mut buffers = snapshots.take_buffers();
        buffers.record.clear();
        buffers.record.push(Entry::Cover(CoverEntry::Pending { id: snapshots.pending_id }));
        snapshots.each_kept_since(mark, range, |at, old| buffers.record.push_at_home(at, old));
        drop(snapshots);
        let logged = self.log_in(scope, &mut buffers.record, &[], &mut PendingHooks { cover: self });
        self.covered.open.snapshots(place, self.medium()).spare(buffers);
        match logged {
            // The log has moved since the range was registered, and has logged all old bytes in the second area.
            Err(CoverError::TooLarge { .. }) => Ok(()),
            logged => logged,
        }
    }

    /// Makes durable at home what the program of the transaction at `place` has stored, before its record says so.
    pub(super) fn flush_stored(&self, place: usize, objects: &[(PoolOffset, u64)]) -> Result<(), LogError> {
        if bugs::SETTLED_BEFORE_FLUSH.is_active() {
            return Ok(());
        }
        let snapshots = self.covered.open.snapshots(place, self.medium());
        if snapshots.pending_id == 0 && objects.is_empty() {
            return Ok(());
        }
        let flush = |at: PoolOffset, len: u64| self.medium().flush(at, len);
        FaultScope::run(|| {
            snapshots.each_range(flush);
            objects.iter().for_each(|(at, len)| flush(*at, *len));
        })?;
        drop(snapshots);
        // ORDER: the new bytes are durable before the record by which the old ones do not come back. Stop here: they do, and new objects
        // are free space.
        Ok(self.medium().drain()?)
    }

    /// Logs that the transaction at `place` has committed, with `changes`. The stores of its program are durable at home.
    pub(super) fn settle_committed(&self, place: usize, changes: &Changes<'_>) -> Result<(), CoverError> {
        let (id, mut buffers) = {
            let mut snapshots = self.covered.open.snapshots(place, self.medium());
            (snapshots.pending_id, snapshots.take_buffers())
        };
        let settled = self.log_committed(place, id, changes, &mut buffers.record);
        self.covered.open.snapshots(place, self.medium()).spare(buffers);
        settled
    }

    fn log_committed(
        &self,
        place: usize,
        id: u64,
        changes: &Changes<'_>,
        record: &mut Record,
    ) -> Result<(), CoverError> {
        begin_settled(record, id);
        record.push_entries(changes.entries);
        let word_id = if changes.words.is_empty() { 0 } else { self.next_id() };
        if word_id != 0 {
            record.push(Entry::Cover(CoverEntry::Pending { id: word_id }));
            changes.words.iter().for_each(|(at, word)| record.push_word(*at, *word));
        }
        if record.is_empty() {
            self.leave(place);
            return Ok(());
        }
        self.log_settled(record, changes.continued, Some(place))?;
        if word_id == 0 || bugs::WORDS_LEFT_PENDING.is_active() {
            return Ok(());
        }
        let mut settle = || {
            // ORDER: the words are durable at home before the record by which recovery leaves them. Stop here: it stores them again.
            self.flush_all(changes.words.iter().map(|(at, _)| (*at, WORD)))?;
            begin_settled(record, word_id);
            self.log_settled(record, &[], None)
        };
        settle().map_err(|_| LogError::InDoubt(InDoubtCause::Unsettled).into())
    }

    /// Ends the transaction at `place`, whose old bytes `old` are at home again.
    pub(super) fn settle_aborted(
        &self,
        place: usize,
        old: &[(PoolOffset, Vec<u8>)],
    ) -> Result<(), CoverError> {
        let id = self.covered.open.snapshots(place, self.medium()).pending_id;
        if id == 0 || bugs::ABORT_NOT_SETTLED.is_active() {
            self.leave(place);
            return Ok(());
        }
        // ORDER: the old bytes are durable at home before the record by which recovery leaves them. Stop here: it puts them back.
        self.flush_all(old.iter().map(|(at, bytes)| (*at, bytes.len() as u64)))?;
        let mut record = Record::new();
        begin_settled(&mut record, id);
        self.log_settled(&mut record, &[], Some(place))
    }

    /// Flushes ranges, and waits until they are durable.
    fn flush_all(&self, mut ranges: impl Iterator<Item = (PoolOffset, u64)>) -> Result<(), LogError> {
        FaultScope::run(|| ranges.by_ref().for_each(|(at, len)| self.medium().flush(at, len)))?;
        // ORDER: argued at each call.
        Ok(self.medium().drain()?)
    }

    fn check_room(&self, words: u64) -> Result<(), CoverError> {
        if words <= self.limits.record_words() { Ok(()) } else { Err(self.too_large(words)) }
    }

    /// Logs a record. The transaction at `ended` has ended with it.
    fn log_settled(
        &self,
        record: &mut Record,
        continued: &[ContinuedRange],
        ended: Option<usize>,
    ) -> Result<(), CoverError> {
        self.log_in(FaultScope::open(), record, continued, &mut SettledHooks { cover: self, ended })
    }

    /// Logs a record, unless the log has failed.
    fn log_in(
        &self,
        scope: FaultScope,
        record: &mut Record,
        continued: &[ContinuedRange],
        hooks: &mut impl CommitHooks,
    ) -> Result<(), CoverError> {
        let logged = self.log.commit_in(&scope, record, continued, hooks);
        let closed = scope.close();
        if logged?.is_none() {
            self.log.check_not_failed()?;
            return Err(self.too_large(record.len() as u64));
        }
        Ok(closed?)
    }

    /// Returns a number that this log epoch has not given yet.
    pub(super) fn next_id(&self) -> u64 {
        self.pending_ids.add(1)
    }
}

/// Appends records of at most `words_max` words with the old bytes of an open transaction.
pub(super) fn append_old(
    id: u64,
    old: &[(PoolOffset, Vec<u8>)],
    words_max: u64,
    append: &mut dyn FnMut(&mut Record) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let part_max = words_max.saturating_sub(WORDS_BESIDE + HEAD_WORDS).max(1) * WORD;
    let parts = old.iter().flat_map(|(at, bytes)| {
        let parts = bytes.chunks(part_max as usize).enumerate();
        parts.map(|(index, part)| (at.plus(index as u64 * part_max), part))
    });
    let mut record = Record::new();
    for (at, part) in parts {
        let words = WORDS_BESIDE + HEAD_WORDS + (part.len() as u64).div_ceil(WORD);
        if !record.is_empty() && record.len() as u64 + words > words_max {
            append(&mut record)?;
            record.clear();
        }
        if record.is_empty() {
            record.push(Entry::Cover(CoverEntry::Pending { id }));
        }
        record.push_at_home(at, part);
    }
    if record.is_empty() { Ok(()) } else { append(&mut record) }
}

/// Begins a record that settles what is pending under a number, if it is one.
fn begin_settled(record: &mut Record, id: u64) {
    record.clear();
    if id != 0 {
        record.push(Entry::Cover(CoverEntry::Settled { id }));
    }
}

/// Logs a record with the old bytes of a range.
#[derive(Debug)]
struct PendingHooks<'c, M: Medium> {
    cover: &'c Cover<M>,
}

impl<M: Medium> CommitHooks for PendingHooks<'_, M> {
    fn admits(&mut self, _closed: u64) -> bool {
        self.cover.log.check_not_failed().is_ok()
    }

    fn to_write_back<'e>(&mut self, _entries: &'e [u64], _dirty: Option<&mut DirtyLines>) -> &'e [u64] {
        // Old bytes are no changes.
        &[]
    }
}

/// Ends a transaction with its record.
#[derive(Debug)]
struct SettledHooks<'c, M: Medium> {
    cover: &'c Cover<M>,
    ended: Option<usize>,
}

impl<M: Medium> CommitHooks for SettledHooks<'_, M> {
    fn admits(&mut self, _closed: u64) -> bool {
        self.cover.log.check_not_failed().is_ok()
    }

    fn finished(&mut self, _exclusive: bool) {
        if let Some(place) = self.ended {
            // ORDER: forgotten while the lane is held: the next checkpoint covers the record, and must not log the old bytes anew.
            self.cover.leave(place);
        }
    }
}
