//! Appends, and the persist that makes them durable where that takes a sync.

use crate::append_log::AppendLog;
use crate::bugs;
use crate::error::{AppendLogError, InDoubtCause};
use crate::staging::Staging;
use lode_layout::LogRecordHeader;
use lode_pmem::sync::Ordering;
use lode_pmem::{FaultScope, Medium, hold};
use std::mem;
use std::ops::Range;
use std::slice;

/// An append that has its position and is not durable. If it ends without being acknowledged, also by a panic, those that wait
/// for it fail.
struct Unfinished<'l, M: Medium>(&'l AppendLog<M>);

impl<M: Medium> Drop for Unfinished<'_, M> {
    fn drop(&mut self) {
        let _ = self.0.fail(InDoubtCause::Earlier);
    }
}

impl<M: Medium> AppendLog<M> {
    /// Appends a record and returns its position.
    ///
    /// # Errors
    /// With [`AppendLogError::InDoubt`] the record may or may not be there after the pool is opened again, and the handle
    /// accepts no more changes. With any other error nothing was appended.
    ///
    /// # Durability
    /// See [`AppendLog`].
    ///
    /// # Cost
    /// One drain without a volatile cache, none with one. Lines copied: those of the content and 32 bytes.
    pub fn append(&self, content: &[u8]) -> Result<u64, AppendLogError> {
        self.appendv(&[content])
    }

    /// Appends one record whose content is these parts, one after the other, and returns its position.
    ///
    /// # Errors
    /// As [`append`](AppendLog::append).
    ///
    /// # Durability
    /// See [`AppendLog`].
    ///
    /// # Cost
    /// That of [`append`](AppendLog::append).
    pub fn appendv(&self, parts: &[&[u8]]) -> Result<u64, AppendLogError> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        self.check_length(len, 1)?;
        Ok(Staging::with([parts].into_iter(), |staging| self.append_staged(staging))?.start)
    }

    /// Appends records and returns the range of their positions: that of the first one, and the position after the last one.
    /// After a crash before this returns, the first ones may be there without the others.
    ///
    /// # Errors
    /// As [`append`](AppendLog::append).
    ///
    /// # Durability
    /// See [`AppendLog`].
    ///
    /// # Cost
    /// One drain for all of them without a volatile cache, none with one.
    pub fn append_batch(&self, records: &[&[u8]]) -> Result<Range<u64>, AppendLogError> {
        if records.is_empty() {
            let end = self.end();
            return Ok(end..end);
        }
        let len = records.iter().map(|record| record.len() as u64).sum();
        self.check_length(len, records.len())?;
        let records = records.iter().map(slice::from_ref);
        Staging::with(records, |staging| self.append_staged(staging))
    }

    /// Fails before anything is copied if records with `len` bytes of content are too long for one append.
    fn check_length(&self, len: u64, count: usize) -> Result<(), AppendLogError> {
        let len = (count * LogRecordHeader::LEN) as u64 + len;
        let max = self.append_max();
        if len <= max { Ok(()) } else { Err(AppendLogError::TooLong { len, max }) }
    }

    fn append_staged(&self, staging: &mut Staging) -> Result<Range<u64>, AppendLogError> {
        let max = self.append_max();
        if staging.len() > max {
            return Err(AppendLogError::TooLong { len: staging.len(), max });
        }
        if self.is_cached && self.end() - self.durable() > LogRecordHeader::UNPROVEN_MAX / 2 {
            self.persist()?;
        }
        let range = self.copy_in(staging)?;
        if !self.is_cached {
            self.acknowledge(&range)?;
        }
        Ok(range)
    }

    /// Gives the append its position, and copies it there.
    fn copy_in(&self, staging: &mut Staging) -> Result<Range<u64>, AppendLogError> {
        let epoch = self.epoch;
        let mut reserved = hold(&self.reserved, self.medium());
        self.check_accepts()?;
        let (start, need) = (*reserved, staging.len());
        let free = (self.head() + self.area.len()).saturating_sub(start);
        if need > free && !bugs::FULL_NOT_CHECKED.is_active() {
            return Err(AppendLogError::Full { need, free });
        }
        let bytes = staging.seal(start, epoch, self.durable(), self.area.seed());
        FaultScope::run(|| self.area.copy(self.medium(), start, bytes))
            .map_err(|fault| self.fail(InDoubtCause::Memory(fault)))?;
        let end = start + need;
        *reserved = end;
        if self.is_cached {
            // ORDER: releases: the append is in the page cache before a reader looks there, and before a persist notes the
            // position up to which its sync has made all durable.
            self.visible.store(end, Ordering::Release);
        }
        Ok(start..end)
    }

    /// Makes an append durable, and then visible, after all appends before it.
    fn acknowledge(&self, range: &Range<u64>) -> Result<(), AppendLogError> {
        let unfinished = Unfinished(self);
        if !bugs::APPEND_NOT_DRAINED.is_active() {
            // ORDER: the append is durable before it counts as such. Stop here: it is there, or the log ends before it (crash
            // table in log_record.md).
            self.medium().drain().map_err(|error| self.fail(InDoubtCause::Drain(error)))?;
        }
        let mut round = 0;
        while self.durable() != range.start && !bugs::RETURNED_BEFORE_EARLIER.is_active() {
            if self.has_failed() {
                return Err(AppendLogError::InDoubt(InDoubtCause::Earlier));
            }
            self.medium().relax(round);
            round = round.saturating_add(1);
        }
        // ORDER: releases: the append is durable before the position says so. An opening finds it only if all before it are
        // there, so they come first.
        self.durable.fetch_max(range.end, Ordering::Release);
        mem::forget(unfinished);
        Ok(())
    }

    /// Makes all appends durable that have returned.
    ///
    /// # Errors
    /// Fails if the sync does, now or before. What was not persisted before may or may not be there after the pool is opened
    /// again.
    ///
    /// # Durability
    /// All records up to [`end`](AppendLog::end), as it was at the call, are durable on return.
    ///
    /// # Cost
    /// With a volatile cache, one sync for all appends since the last one; otherwise none.
    pub fn persist(&self) -> Result<(), AppendLogError> {
        if self.redo.is_read_only() {
            return Ok(());
        }
        self.check_accepts()?;
        let target = self.end();
        if self.durable() >= target {
            return Ok(());
        }
        if bugs::PERSIST_NOT_AWAITED.is_active() && self.persisting.try_lock().is_none() {
            return Ok(());
        }
        let _one = hold(&self.persisting, self.medium());
        if self.durable() >= target {
            return Ok(());
        }
        self.check_accepts()?;
        let target = self.end();
        // ORDER: all appends that are visible before it counts them as durable. Stop here: the log ends after some of them.
        self.medium().drain().map_err(|error| self.fail(InDoubtCause::Drain(error)))?;
        // ORDER: releases: as in `acknowledge`.
        self.durable.store(target, Ordering::Release);
        Ok(())
    }
}
