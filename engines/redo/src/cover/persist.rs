//! Stores outside of transactions that a program makes durable.

use super::claims::Claims;
use super::content::Content;
use super::units::UnitState;
use super::{Cover, CoverError, HEAD_WORDS, Mode};
use crate::{CommitHooks, LogError, bugs};
use lode_layout::{PoolOffset, RECORD_HEADER_WORDS, RECORD_LINE_WORDS, Record, WORD};
use lode_pmem::sync::{Ordering, fence};
use lode_pmem::{Durability, Fault, FaultScope, Medium};
use std::ops::Range;

/// Length in bytes up to which a persist goes into the log at durability commit: threads then share a sync.
const SHARED_SYNC_MAX: u64 = 64 << 10;
/// Length in bytes up to which a persist of covered units goes into the log alone: a flush at home would be for nothing.
const LOGGED_ALONE_MAX: u64 = 1 << 10;

/// Ranges in covered units from which on a checkpoint costs less than a record for each: it frees the units.
const CHECKPOINT_MIN: usize = 16;

/// Bytes that are read at a time: while they are, few transactions end or are held.
const STEP: u64 = 4096;

/// The units of a range whose bytes a persist logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logged {
    /// Those that are not free: the bytes are durable at home.
    NotFree,
    /// All, if the log covers all of them in this epoch; else none.
    Covered,
    /// All.
    All,
}

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
    /// One drain. Another one if the log covers a unit of the range, unless it covers all of a short one. At durability commit one synced write, shared with others, up
    /// to 64 KiB.
    pub fn persist(&self, at: PoolOffset, len: u64) -> Result<(), CoverError> {
        self.persist_after(at, len, || FaultScope::run(|| self.medium().flush(at, len)))
    }

    /// Makes the bytes of a range durable as [`persist`](Cover::persist) does, if the caller has flushed them or stored them past the
    /// cache.
    ///
    /// # Errors
    /// As [`persist`](Cover::persist).
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// As [`persist`](Cover::persist), without the flush.
    pub fn persist_flushed(&self, at: PoolOffset, len: u64) -> Result<(), CoverError> {
        self.persist_after(at, len, || Ok(()))
    }

    /// Makes the bytes of all ranges durable, as [`persist`](Cover::persist) does for each.
    ///
    /// # Errors
    /// As [`persist`](Cover::persist).
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain. Another one for each range of which the log covers a unit, or that of a checkpoint if these are many.
    pub fn persist_all(
        &self,
        ranges: impl Iterator<Item = (PoolOffset, u64)> + Clone,
    ) -> Result<(), CoverError> {
        ranges.clone().try_for_each(|(at, len)| self.check_range(at, len))?;
        FaultScope::run(|| ranges.clone().for_each(|(at, len)| self.medium().flush(at, len)))?;
        // ORDER: as in `persist`, for all ranges at once.
        self.medium().drain().map_err(LogError::from)?;
        if self.mode == Mode::Careful {
            return Ok(self.log.check_not_failed()?);
        }
        fence(Ordering::SeqCst);
        let is_covered = |(at, len): &(PoolOffset, u64)| !self.are_free(self.covered.units.of(*at, *len));
        if ranges.clone().filter(is_covered).take(CHECKPOINT_MIN).count() == CHECKPOINT_MIN {
            self.checkpoint()?;
        }
        for (at, len) in ranges.filter(is_covered) {
            self.log_parts(at, len, Logged::NotFree)?;
        }
        Ok(())
    }

    /// Makes the bytes of a range durable, which are on their way to the medium after `flush`.
    #[inline]
    fn persist_after(
        &self,
        at: PoolOffset,
        len: u64,
        flush: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<(), CoverError> {
        self.check_range(at, len)?;
        if self.mode == Mode::Careful {
            flush()?;
            // ORDER: the bytes are durable at home before the caller is told: nothing in the log replaces them, but the old ones of
            // transactions that are open, or that a log that has failed could not settle.
            self.medium().drain().map_err(LogError::from)?;
            return Ok(self.log.check_not_failed()?);
        }
        let logs_all = self.medium().durability() == Durability::Commit && len <= SHARED_SYNC_MAX;
        if !logs_all {
            // A guess, which the record asks again.
            let is_guessed =
                len <= LOGGED_ALONE_MAX && self.covered.units.are_covered(self.covered.units.of(at, len));
            if is_guessed && self.log_bytes(at, len, Logged::Covered)? {
                return Ok(());
            }
            flush()?;
            // ORDER: the bytes are durable at home before the caller is told, if nothing in the log replaces them.
            self.medium().drain().map_err(LogError::from)?;
            if bugs::PERSIST_IN_PLACE.is_active() || self.are_free_for_one(at, len) {
                return Ok(());
            }
            // ORDER: the question comes after the store and its flush: either it sees the claim of a unit, or the image that the
            // claim leads to sees the store.
            fence(Ordering::SeqCst);
            if self.are_free(self.covered.units.of(at, len)) {
                return Ok(());
            }
        }
        let logged = if logs_all { Logged::All } else { Logged::NotFree };
        self.log_parts(at, len, logged)
    }

    /// Logs bytes of a range, in records of which each has room in the log.
    fn log_parts(&self, at: PoolOffset, len: u64, logged: Logged) -> Result<(), CoverError> {
        for (at, len) in self.parts(at, len) {
            // A record is given up if it is not needed, or if the log has moved and it is too long by now. What is flushed needs none after
            // the checkpoint of that move.
            if !self.log_bytes(at, len, logged)? && logged == Logged::All {
                self.log_parts(at, len, logged)?;
            }
        }
        Ok(())
    }

    /// Returns true if this thread alone uses the log, and the units of the range are free.
    #[inline]
    fn are_free_for_one(&self, at: PoolOffset, len: u64) -> bool {
        // ORDER: no other thread has a claim while this one has the exclusive lane. One that claims a unit later passes the heavy fence
        // before, so that its image sees the store.
        let units = self.covered.units.of(at, len);
        self.log.with_exclusive_lane(|| self.covered.units.are_free(units)).unwrap_or(false)
    }

    #[inline]
    fn are_free(&self, units: Range<u64>) -> bool {
        match bugs::OLD_TAKEN_FOR_FREE.is_active() {
            true => units.clone().all(|unit| is_free(&self.covered.units.state(unit))),
            false => self.covered.units.are_free(units),
        }
    }

    /// Logs bytes of a range. Returns true if a record has them.
    fn log_bytes(&self, at: PoolOffset, len: u64, logged: Logged) -> Result<bool, CoverError> {
        let units = self.covered.units.of(at, len);
        let state = |unit: u64| self.covered.units.state(unit);
        let asked = if bugs::STATE_NOT_ASKED_AGAIN.is_active() { units.clone() } else { 0..0 };
        let early = asked.map(state).collect();
        self.check_readable([(at, len)].into_iter())?;
        let scope = FaultScope::open();
        let range = at.get()..at.get() + len;
        let mut claimed = Vec::new();
        let claims = Claims::new(self, &scope, None, &mut claimed);
        let mut hooks = PersistHooks {
            cover: self,
            claims,
            range,
            units,
            logged,
            early,
            early_bytes: Vec::new(),
            has_failed: false,
        };
        let committed = self.log.commit_in(&scope, &mut Record::new(), &[], &mut hooks);
        let has_failed = hooks.has_failed;
        let faultless = scope.close();
        let is_logged = committed?.is_some();
        if has_failed || !is_logged && self.log.check_not_failed().is_err() {
            return Err(LogError::Poisoned.into());
        }
        faultless?;
        Ok(is_logged)
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
    logged: Logged,
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

    /// Stores the bytes to log, those from `start` on, with the old ones of open transactions.
    fn fill(&mut self, start: u64, bytes: &mut [u8]) {
        let (log, medium) = (&self.cover.log, self.cover.medium());
        let load = |bytes: &mut [u8]| self.claims.memory().read(PoolOffset::new(start), bytes);
        let mut content = Content::new(&self.cover.covered.open, log.is_grouped());
        for round in 0.. {
            let is_done = content.load(medium, start, bytes, load);
            // ORDER: asked after the old bytes are put in. A transaction whose commit was refused keeps its ranges, and its stores lie
            // there; it returned when the log had failed. One that has added them since has its stores for old bytes.
            if log.check_not_failed().is_err() {
                self.has_failed = true;
                break;
            }
            if is_done {
                break;
            }
            medium.relax(round);
        }
    }

    /// Returns true if the bytes of a unit are to be logged.
    fn is_logged(&self, unit: u64) -> bool {
        self.logged != Logged::NotFree || !is_free(&self.state(unit))
    }

    /// Returns true if the unit is to be logged whole as well.
    fn wants_image(&self, unit: u64) -> bool {
        match self.state(unit) {
            UnitState::Free => self.logged == Logged::All,
            UnitState::Old => !bugs::OLD_WITHOUT_IMAGE.is_active(),
            UnitState::Claimed | UnitState::Covered => false,
        }
    }

    /// Returns the next units from `unit` on that are to be logged together.
    fn next_run(&self, unit: u64) -> Option<Range<u64>> {
        let in_step = (STEP / self.cover.covered.units.unit_len()).max(1);
        let start = (unit..self.units.end).find(|unit| self.is_logged(*unit))?;
        let max = (start + in_step).min(self.units.end);
        let end = (start..max).find(|unit| !self.is_logged(*unit)).unwrap_or(max);
        Some(start..end)
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
        let mut units = self.units.clone();
        let is_needed = match self.logged {
            Logged::All => true,
            Logged::NotFree => units.any(|unit| !is_free(&self.state(unit))),
            // One that is not covered any more needs a flush.
            Logged::Covered => units.all(|unit| self.state(unit) == UnitState::Covered),
        };
        if bugs::CONTENT_BEFORE_NUMBER.is_active() && !self.cover.log.is_grouped() {
            let mut bytes = vec![0; (self.range.end - self.range.start) as usize];
            self.fill(self.range.start, &mut bytes);
            self.early_bytes = bytes;
            self.cover.medium().relax(0);
        }
        is_needed && self.claims.admit()
    }

    fn compose(&mut self, record: &mut Record) {
        record.clear();
        let imaged: Vec<u64> = self.units.clone().filter(|unit| self.wants_image(*unit)).collect();
        self.claims.push_images(record, imaged.into_iter());
        let mut done = self.units.start;
        while let Some(run) = self.next_run(done) {
            done = run.end;
            let part = self.part_in(run.start).start..self.part_in(run.end - 1).end;
            let (at, len) = (PoolOffset::new(part.start), part.end - part.start);
            match self.early_bytes.get((part.start - self.range.start) as usize..) {
                Some(bytes) if !bytes.is_empty() => record.push_at_home(at, &bytes[..len as usize]),
                _ => record.push_at_home_with(at, len, |bytes| self.fill(part.start, bytes)),
            }
        }
        self.claims.check_content(record);
        if self.has_failed {
            record.clear();
        }
    }

    fn finished(&mut self, exclusive: bool) {
        self.claims.cover(exclusive);
    }
}
