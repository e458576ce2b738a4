//! Appends, and the persist that makes them durable where that takes a sync.

use crate::append_log::AppendLog;
use crate::bugs;
use crate::error::{AppendLogError, InDoubtCause};
use crate::staging::{Seal, Staging};
use lode_layout::{LINE, LogFrameHeader, align_up};
use lode_pmem::sync::Ordering;
use lode_pmem::{FaultScope, Medium, hold};
use std::iter;
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
        Ok(self.append_records(iter::once(parts))?.start)
    }

    /// Appends records and returns the range of their positions: that of the first one, and the position after the last one.
    /// Records that follow each other share frames: up to 64 with at most 4096 bytes. After a crash before this returns, the
    /// first frames may be there without the others, and each frame with all of its records or none.
    ///
    /// # Errors
    /// As [`append`](AppendLog::append).
    ///
    /// # Durability
    /// See [`AppendLog`].
    ///
    /// # Cost
    /// One drain for all of them without a volatile cache, none with one. Lines copied for each frame: those of the contents, 32
    /// bytes, and 2 for each record after the first.
    pub fn append_batch(&self, records: &[&[u8]]) -> Result<Range<u64>, AppendLogError> {
        if records.is_empty() {
            let end = self.end();
            return Ok(end..end);
        }
        self.append_records(records.iter().map(slice::from_ref))
    }

    /// Appends records, each of some parts.
    fn append_records<'p>(
        &self,
        records: impl Iterator<Item = &'p [&'p [u8]]>,
    ) -> Result<Range<u64>, AppendLogError> {
        let max = self.append_max();
        let mut staging = Staging::take();
        staging.fill(records, max).map_err(|len| AppendLogError::TooLong { len, max })?;
        if self.is_cached && self.end() - self.durable() > LogFrameHeader::UNPROVEN_MAX / 2 {
            self.persist()?;
        }
        let mut reserved = hold(&self.reserved, self.medium());
        let range = self.reserve(&mut reserved, staging.len())?;
        let unfinished = Unfinished(self);
        if self.is_cached {
            self.copy_in(&mut staging, range.start)?;
            // ORDER: releases: the append is in the page cache before a reader looks there, and before a persist notes the
            // position up to which its sync has made all durable. The lock keeps appends in order.
            self.visible.store(range.end, Ordering::Release);
            drop(reserved);
            staging.keep();
        } else {
            drop(reserved);
            self.copy_in(&mut staging, range.start)?;
            staging.keep();
            self.acknowledge(&range)?;
        }
        mem::forget(unfinished);
        Ok(range)
    }

    /// Gives an append of `need` bytes its position.
    fn reserve(&self, reserved: &mut u64, need: u64) -> Result<Range<u64>, AppendLogError> {
        self.check_accepts()?;
        let start = *reserved;
        let mut head = self.head();
        if bugs::HEAD_FRAME_REUSED.is_active() {
            head = align_up(head, LINE);
        }
        let free = self.area.limit(head).saturating_sub(start);
        if need > free && !bugs::FULL_NOT_CHECKED.is_active() {
            return Err(AppendLogError::Full { need, free });
        }
        *reserved = start + need;
        Ok(start..start + need)
    }

    /// Copies an append to its position.
    fn copy_in(&self, staging: &mut Staging, start: u64) -> Result<(), AppendLogError> {
        let seal = Seal { start, durable: self.durable(), epoch: self.epoch, seed: self.area.seed() };
        let copy = |position, lines: &[u8]| self.area.copy(self.medium(), position, lines);
        FaultScope::run(|| staging.seal(&seal, copy)).map_err(|fault| self.fail(InDoubtCause::Memory(fault)))
    }

    /// Makes an append durable, and then visible, after all appends before it.
    fn acknowledge(&self, range: &Range<u64>) -> Result<(), AppendLogError> {
        if !bugs::APPEND_NOT_DRAINED.is_active() {
            // ORDER: the append is durable before it counts as such. Stop here: it is there, or the log ends before it (crash
            // table in log_frame.md).
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
        // there, so they come first. No other append stores the position now: each waits for the one before it.
        match bugs::RETURNED_BEFORE_EARLIER.is_active() {
            true => drop(self.durable.fetch_max(range.end, Ordering::Release)),
            false => self.durable.store(range.end, Ordering::Release),
        }
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
