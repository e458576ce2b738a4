//! A transaction without its memory.

use super::claims::Claims;
use super::image_hooks::ImageHooks;
use super::units::{NEIGHBOURS, UnitState};
use super::{Cover, CoverError, HEAD_WORDS, Mode};
use crate::bugs;
use lode_layout::{LINE, PoolOffset, RECORD_HEADER_WORDS, WORD};
use lode_pmem::{FaultScope, Medium};
use std::ops::Range;

/// A transaction of a [`Cover`], for callers that can't borrow it: they keep this beside their own state, and hand it to the same
/// `Cover`. Dropped without an end, the transaction stays open until [`Cover::close`] aborts it.
#[derive(Debug)]
#[must_use = "a transaction stays open until it is committed or aborted"]
pub struct OpenTransaction {
    pub(super) place: usize,
    /// Words that the content of its ranges takes in its record.
    pub(super) words: u64,
}

impl OpenTransaction {
    pub(super) fn new(place: usize) -> OpenTransaction {
        OpenTransaction { place, words: 0 }
    }

    /// Returns the bytes of its record that the ranges take so far.
    pub fn record_len(&self) -> u64 {
        self.words * WORD
    }

    pub(super) fn add_range<M: Medium>(
        &mut self,
        cover: &Cover<M>,
        at: PoolOffset,
        len: u64,
    ) -> Result<(), CoverError> {
        cover.check_range(at, len)?;
        let units = cover.covered.units.of(at, len);
        if cover.mode == Mode::Careful {
            return cover.add_pending(self.place, at.get()..at.get() + len, units);
        }
        if !cover.covered.units.are_covered(units.clone()) {
            cover.prefetch(units.clone());
        }
        self.keep(cover, at, len, units.clone())?;
        if cover.covered.units.are_covered(units) {
            return Ok(());
        }
        for (at, len) in cover.parts(at, len) {
            cover.cover_units(cover.covered.units.of(at, len), self.place)?;
        }
        Ok(())
    }

    /// Registers a range and keeps its old bytes, if the log has room for what it takes.
    fn keep<M: Medium>(
        &mut self,
        cover: &Cover<M>,
        at: PoolOffset,
        len: u64,
        units: Range<u64>,
    ) -> Result<(), CoverError> {
        let range = at.get()..at.get() + len;
        let of_unit = cover.covered.units.unit_len() + HEAD_WORDS * WORD;
        let mut snapshots = cover.covered.open.snapshots(self.place, cover.medium());
        // Asked while the snapshots are held: a move of the log lowers it, and looks at them afterwards.
        let room = cover.limits.record_words();
        let addition = snapshots.addition(&range, &units);
        let words = self.words + addition.words;
        if words + RECORD_HEADER_WORDS as u64 > room {
            return Err(cover.too_large(words));
        }
        let held = snapshots.held + addition.new_units * of_unit;
        if held > snapshots.allowance {
            cover.extend(&mut snapshots.allowance, held)?;
        }
        snapshots.held = held;
        // ORDER: registered before the units' states are asked: a checkpoint either sees the range, and logs the images of its
        // units anew, or has begun its epoch before the question.
        let scope = FaultScope::open();
        let mark = snapshots.keep(scope.memory(cover.medium().memory()), range, units, addition);
        if scope.has_fault() {
            snapshots.forget_since(mark);
        } else {
            self.words = words;
        }
        Ok(scope.close()?)
    }
}

impl<M: Medium> Cover<M> {
    /// Fetches the first units that are about to be logged: all of their lines at once.
    fn prefetch(&self, units: Range<u64>) {
        let units = self.with_neighbours(units);
        let (at, len) = self.covered.units.place(units.start, (units.end - units.start).min(NEIGHBOURS));
        (0..len / LINE).for_each(|line| self.medium().memory().prefetch_load(at.plus(line * LINE)));
    }

    /// Returns the units that are logged for those of a range: those around them, too, if they are few.
    fn with_neighbours(&self, units: Range<u64>) -> Range<u64> {
        let states = &self.covered.units;
        let together = states.together();
        let words = together * (states.unit_len() / WORD + HEAD_WORDS) + RECORD_HEADER_WORDS as u64;
        if units.end - units.start >= together || words > self.limits.record_words() {
            return units;
        }
        let end = units.end.next_multiple_of(together).min(states.count());
        units.start / together * together..end
    }

    /// Covers the units, whose images fit into a record, for the transaction at a place.
    fn cover_units(&self, units: Range<u64>, place: usize) -> Result<(), CoverError> {
        let states = &self.covered.units;
        if states.are_covered(units.clone()) {
            return Ok(());
        }
        let logged = self.with_neighbours(units.clone());
        self.check_units(logged.clone())?;
        let mut buffers = self.covered.open.snapshots(place, self.medium()).take_buffers();
        let scope = FaultScope::open();
        let claims = Claims::new(self, &scope, Some(place), &mut buffers.units);
        let mut hooks = ImageHooks { claims, units: logged };
        let logged = self.log.commit_in(&scope, &mut buffers.record, &[], &mut hooks);
        let closed = scope.close();
        self.covered.open.snapshots(place, self.medium()).spare(buffers);
        if logged?.is_none() {
            self.log.check_not_failed()?;
            // The log has moved since the range was registered, and has covered the units of all ranges.
            debug_assert!(states.are_covered(units.clone()), "a move covers the units of open transactions");
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
