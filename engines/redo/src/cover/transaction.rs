//! A transaction over memory that its program stores to in place.

use super::claims::Claims;
use super::image_hooks::ImageHooks;
use super::units::UnitState;
use super::{Cover, CoverError, HEAD_WORDS};
use crate::{LogError, bugs};
use lode_layout::{PoolOffset, RECORD_HEADER_WORDS, WORD};
use lode_pmem::{FaultScope, Medium};
use std::ops::Range;

/// An open transaction. Dropped without an end, it is aborted.
#[derive(Debug)]
#[must_use = "a transaction that is dropped is aborted"]
pub struct Transaction<'c, M: Medium> {
    pub(super) cover: &'c Cover<M>,
    pub(super) place: usize,
    /// Words that the content of its ranges takes in its record.
    pub(super) words: u64,
    /// Bytes of the log that images of its units take.
    held: u64,
    is_open: bool,
}

impl<'c, M: Medium> Transaction<'c, M> {
    pub(super) fn new(cover: &'c Cover<M>, place: usize) -> Self {
        Transaction { cover, place, words: 0, held: 0, is_open: true }
    }

    /// Adds a range, which the program may store to from now on. Bytes that were added before stay as they are kept.
    ///
    /// # Errors
    /// [`CoverError::OutOfRange`]; [`CoverError::TooLarge`]; [`CoverError::Log`] when an image can't be logged, or when the range
    /// can't be read.
    ///
    /// # Durability
    /// A crash before the end of [`commit`](Transaction::commit) leaves the range as it is now.
    ///
    /// # Cost
    /// None on the medium if the log covers all units of the range; otherwise one drain for all of them.
    pub fn add_range(&mut self, at: PoolOffset, len: u64) -> Result<(), CoverError> {
        self.cover.check_range(at, len)?;
        let units = self.cover.covered.units.of(at, len);
        self.keep(at, len, units.clone())?;
        if self.cover.covered.units.are_covered(units) {
            return Ok(());
        }
        for (at, len) in self.cover.parts(at, len) {
            self.cover.cover_units(self.cover.covered.units.of(at, len), self.place)?;
        }
        Ok(())
    }

    /// Registers a range and keeps its old bytes, if the log has room for what it takes.
    fn keep(&mut self, at: PoolOffset, len: u64, units: Range<u64>) -> Result<(), CoverError> {
        let range = at.get()..at.get() + len;
        let room = self.cover.log.record_words_max() as u64;
        let of_unit = self.cover.covered.units.unit_len() + HEAD_WORDS * WORD;
        let mut snapshots = self.cover.covered.open.snapshots(self.place, self.cover.medium());
        let words = self.words + snapshots.words_of(range.clone());
        if words + RECORD_HEADER_WORDS as u64 > room {
            return Err(CoverError::TooLarge { needed: words * WORD, room: room * WORD });
        }
        let held = snapshots.new_units(units.clone()) * of_unit;
        self.cover.covered.hold(held, self.cover.log.reserved_len() / 2)?;
        self.held += held;
        snapshots.add_units(units);
        // ORDER: registered before the units' states are asked: a checkpoint either sees the range, and logs the images of its
        // units anew, or has begun its epoch before the question.
        let scope = FaultScope::open();
        let mark = snapshots.keep(scope.memory(self.cover.medium().memory()), range);
        if scope.has_fault() {
            snapshots.forget_since(mark);
        } else {
            self.words = words;
        }
        Ok(scope.close()?)
    }

    /// Puts the old bytes of all ranges back.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when the old bytes can't be stored: the next open puts them back.
    ///
    /// # Cost
    /// No drain.
    pub fn abort(mut self) -> Result<(), LogError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), LogError> {
        let done = put_back(self.cover, self.place);
        self.has_ended();
        done
    }

    /// Notes that the transaction has ended: its place is free.
    pub(super) fn has_ended(&mut self) {
        self.is_open = false;
        self.cover.covered.release(self.held);
    }
}

impl<M: Medium> Drop for Transaction<'_, M> {
    fn drop(&mut self) {
        if self.is_open {
            // The next open puts back what this can't.
            let _ = self.put_back();
        }
    }
}

impl<M: Medium> Cover<M> {
    /// Covers the units, whose images fit into a record, for the transaction at a place.
    fn cover_units(&self, units: Range<u64>, place: usize) -> Result<(), CoverError> {
        let states = &self.covered.units;
        if states.are_covered(units.clone()) {
            return Ok(());
        }
        self.check_readable(units.clone())?;
        let mut record = self.covered.open.snapshots(place, self.medium()).take_record();
        let scope = FaultScope::open();
        let claims = Claims::new(self, &scope);
        let mut hooks = ImageHooks { claims, units: units.clone() };
        let logged = self.log.commit_in(&scope, &mut record, &[], &mut hooks);
        let closed = scope.close();
        self.covered.open.snapshots(place, self.medium()).spare(record);
        if logged?.is_none() {
            return Err(LogError::Poisoned.into());
        }
        closed?;
        if bugs::CLAIMED_TAKEN_FOR_COVERED.is_active() {
            return Ok(());
        }
        for round in 0.. {
            // ORDER: another thread's image of the unit is durable before the program stores there.
            if !units.clone().any(|unit| states.state(unit) == UnitState::Claimed) {
                break;
            }
            self.log.check_not_failed()?;
            self.medium().relax(round);
        }
        Ok(())
    }
}

/// Ends the transaction at a place: puts the old bytes of its ranges back.
pub(super) fn put_back<M: Medium>(cover: &Cover<M>, place: usize) -> Result<(), LogError> {
    let medium = cover.medium();
    let old: Vec<(PoolOffset, Vec<u8>)> = {
        let snapshots = cover.covered.open.snapshots(place, medium);
        snapshots.old().map(|(at, bytes)| (at, bytes.to_vec())).collect()
    };
    let store = || FaultScope::run(|| old.iter().for_each(|(at, bytes)| medium.store(*at, bytes)));
    if bugs::ABORT_WITHOUT_LANE.is_active() {
        let stored = store();
        cover.covered.open.leave(place, medium);
        medium.relax(0);
        cover.log.with_lane(|dirty| note(dirty, &old));
        return Ok(stored?);
    }
    // ORDER: put back, noted as dirty and forgotten while a lane is held: a checkpoint sees the transaction as open, and logs its
    // old bytes, or flushes them.
    let stored = cover.log.with_lane(|dirty| {
        let stored = store();
        note(dirty, &old);
        if stored.is_ok() {
            cover.covered.open.leave(place, medium);
        }
        stored
    });
    stored.map_err(|_| LogError::Poisoned).inspect_err(|_| cover.log.fail())
}

fn note(dirty: Option<&mut crate::DirtyLines>, ranges: &[(PoolOffset, Vec<u8>)]) {
    if let Some(dirty) = dirty {
        ranges.iter().for_each(|(at, bytes)| dirty.add(*at, bytes.len() as u64));
    }
}
