//! Stores outside of transactions that a program makes durable.

use super::claims::Claims;
use super::units::UnitState;
use super::{Cover, CoverError, HEAD_WORDS};
use crate::{CommitHooks, LogError, bugs};
use lode_layout::{PoolOffset, RECORD_HEADER_WORDS, RECORD_LINE_WORDS, Record, WORD};
use lode_pmem::sync::{Ordering, fence};
use lode_pmem::{Durability, FaultScope, Medium};
use std::ops::Range;

/// Length in bytes up to which a persist goes into the log at durability commit: threads then share a sync.
const SHARED_SYNC_MAX: u64 = 64 << 10;

impl<M: Medium> Cover<M> {
    /// Makes the bytes of a range durable, as they are now. Bytes of open transactions keep their old state: a persist does not
    /// commit them.
    ///
    /// # Errors
    /// [`CoverError::OutOfRange`]; [`CoverError::Log`] when the bytes can't be made durable.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain. Another one if the log covers a unit of the range. At durability commit one synced write, shared with others, up
    /// to 64 KiB.
    pub fn persist(&self, at: PoolOffset, len: u64) -> Result<(), CoverError> {
        self.check_range(at, len)?;
        let logs_all = self.medium().durability() == Durability::Commit && len <= SHARED_SYNC_MAX;
        if !logs_all {
            let flushed = FaultScope::run(|| self.medium().flush(at, len));
            flushed?;
            // ORDER: the bytes are durable at home before the caller is told, if nothing in the log replaces them.
            self.medium().drain().map_err(LogError::from)?;
            // ORDER: the question comes after the store and its flush: either it sees the claim of a unit, or the image that the
            // claim leads to sees the store.
            fence(Ordering::SeqCst);
            if bugs::PERSIST_IN_PLACE.is_active() {
                return Ok(());
            }
        }
        for (at, len) in self.parts(at, len) {
            self.log_bytes(at, len, logs_all)?;
        }
        Ok(())
    }

    /// Logs those bytes of a range whose units are not free, or all of them.
    fn log_bytes(&self, at: PoolOffset, len: u64, logs_all: bool) -> Result<(), CoverError> {
        let units = self.covered.units.of(at, len);
        let state = |unit: u64| self.covered.units.state(unit);
        if !logs_all && units.clone().all(|unit| is_free(&state(unit))) {
            return Ok(());
        }
        let asked = if bugs::STATE_NOT_ASKED_AGAIN.is_active() { units.clone() } else { 0..0 };
        let early = asked.map(state).collect();
        self.check_readable(units.clone())?;
        let scope = FaultScope::open();
        let range = at.get()..at.get() + len;
        let claims = Claims::new(self, &scope);
        let mut hooks = PersistHooks {
            cover: self,
            claims,
            range,
            units,
            logs_all,
            early,
            early_bytes: Vec::new(),
            has_failed: false,
        };
        let logged = self.log.commit_in(&scope, &mut Record::new(), &[], &mut hooks);
        let has_failed = hooks.has_failed;
        let faultless = scope.close();
        if has_failed || logged?.is_none() && self.log.check_not_failed().is_err() {
            return Err(LogError::Poisoned.into());
        }
        Ok(faultless?)
    }
}

fn is_free(state: &UnitState) -> bool {
    let is_old_forgotten = bugs::OLD_TAKEN_FOR_FREE.is_active() && *state == UnitState::Old;
    *state == UnitState::Free || is_old_forgotten
}

/// Composes the record of a persist when it has its number.
struct PersistHooks<'c, M: Medium> {
    cover: &'c Cover<M>,
    claims: Claims<'c, M>,
    range: Range<u64>,
    units: Range<u64>,
    logs_all: bool,
    /// The states of the units before a lane was held, for the seeded bug.
    early: Vec<UnitState>,
    /// The content of the range before the record had its number, for another one.
    early_bytes: Vec<u8>,
    /// True if the log failed while the bytes were in the commit of another transaction.
    has_failed: bool,
}

impl<M: Medium> PersistHooks<'_, M> {
    fn state(&self, unit: u64) -> UnitState {
        match bugs::STATE_NOT_ASKED_AGAIN.is_active() {
            true => self.early[(unit - self.units.start) as usize],
            false => self.cover.covered.units.state(unit),
        }
    }

    /// Returns the bytes of the range that lie in a unit.
    fn part_in(&self, unit: u64) -> Range<u64> {
        let (at, len) = self.cover.covered.units.place(unit, 1);
        at.get().max(self.range.start)..(at.get() + len).min(self.range.end)
    }

    /// Returns the bytes to log: those of the range, with the old ones of open transactions.
    fn bytes(&mut self, part: &Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (part.end - part.start) as usize];
        let (log, medium, open) = (&self.cover.log, self.cover.medium(), &self.cover.covered.open);
        for round in 0.. {
            let ended = open.ended();
            self.claims.memory().read(PoolOffset::new(part.start), &mut bytes);
            if bugs::END_NOT_NOTICED.is_active() && !log.is_grouped() {
                medium.relax(0);
            }
            // ORDER: the old bytes are asked for after the content is read: a transaction that adds the range meanwhile has kept
            // this content. One that ends meanwhile is found by the count, and one that commits is waited for.
            let is_settled = bugs::PERSIST_OF_OPEN_BYTES.is_active()
                || open.overlay(medium, part.start, &mut bytes, log.is_grouped());
            let none_ended = open.ended() == ended || bugs::END_NOT_NOTICED.is_active();
            if is_settled && none_ended {
                break;
            }
            // A transaction that failed in its commit keeps its ranges.
            if log.check_not_failed().is_err() {
                self.has_failed = true;
                break;
            }
            medium.relax(round);
        }
        bytes
    }
}

impl<M: Medium> CommitHooks for PersistHooks<'_, M> {
    fn padded_len_max(&self, _record: &Record) -> usize {
        let units = self.units.end - self.units.start;
        let bytes = (self.range.end - self.range.start).div_ceil(WORD) + units * (HEAD_WORDS + 1);
        let words = RECORD_HEADER_WORDS as u64 + self.claims.image_words(units) + bytes;
        (words as usize).next_multiple_of(RECORD_LINE_WORDS)
    }

    fn admits(&mut self, _closed: u64) -> bool {
        // ORDER: asked again with the lane held: the states change with all lanes held, or by a claim. A unit that is free by now needs
        // no record: the checkpoint that freed it has ended, and the flush was enough.
        let is_needed = self.logs_all || self.units.clone().any(|unit| !is_free(&self.state(unit)));
        if bugs::CONTENT_BEFORE_NUMBER.is_active() && !self.cover.log.is_grouped() {
            let range = self.range.clone();
            self.early_bytes = self.bytes(&range);
            self.cover.medium().relax(0);
        }
        is_needed && self.claims.admit()
    }

    fn compose(&mut self, record: &mut Record) {
        record.clear();
        let units = self.units.clone();
        let logged: Vec<u64> = units.filter(|unit| self.logs_all || !is_free(&self.state(*unit))).collect();
        let wants_image = |unit: &u64| match self.state(*unit) {
            UnitState::Free => self.logs_all,
            UnitState::Old => !bugs::OLD_WITHOUT_IMAGE.is_active(),
            UnitState::Claimed | UnitState::Covered => false,
        };
        let imaged: Vec<u64> = logged.iter().copied().filter(wants_image).collect();
        self.claims.push_images(record, imaged.into_iter());
        for run in logged.chunk_by(|unit, next| unit + 1 == *next) {
            let part = self.part_in(run[0]).start..self.part_in(run[run.len() - 1]).end;
            let at = PoolOffset::new(part.start);
            match self.early_bytes.get((part.start - self.range.start) as usize..) {
                Some(bytes) if !bytes.is_empty() => {
                    record.push_at_home(at, &bytes[..(part.end - part.start) as usize]);
                }
                _ => record.push_at_home(at, &self.bytes(&part)),
            }
        }
        self.claims.check_content(record);
        if self.has_failed {
            record.clear();
        }
    }

    fn finished(&mut self) {
        self.claims.cover();
    }
}
