//! The states of units: whether recovery rewrites their content.

use super::UNIT;
use crate::bugs;
use lode_layout::PoolOffset;
use lode_pmem::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use std::mem;
use std::ops::Range;
use std::sync::{OnceLock, PoisonError};

/// Units whose states share a word.
const IN_WORD: u64 = 32;
/// Units of at most 256 bytes that are logged together, if that pays.
pub(super) const NEIGHBOURS: u64 = 4;
const FREE: u64 = 0;
const CLAIMED: u64 = 1;
/// Covered in an epoch with an even number. In one with an odd number it is one more.
const COVERED: u64 = 2;
/// Pieces of states that a pool gets when it grows: each has as many as all before it, so no pool needs more.
const PIECES: usize = 48;

/// The content of a unit that the log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitState {
    /// Nothing: a flush makes a store durable.
    Free,
    /// A thread is about to log its image.
    Claimed,
    /// Its image is in this epoch: recovery rewrites it.
    Covered,
    /// Its image is in the old epoch only, whose checkpoint is under way.
    Old,
}

/// The states of all units of a pool, two bits each. An epoch lasts from one checkpoint to the next.
#[derive(Debug)]
pub(super) struct Units {
    /// Those of the pool as it was opened, at least one word.
    states: Box<[AtomicU64]>,
    /// Those of the bytes by which it has grown.
    grown: [OnceLock<Box<[AtomicU64]>>; PIECES],
    /// Length of the pool in bytes, which need not be a multiple of a unit.
    len: AtomicU64,
    /// Bytes of a unit, as a power of two.
    shift: u32,
    /// The number of the epoch. It changes while all lanes are held.
    epoch: AtomicU64,
    /// Number of units in a row that are logged together, a power of two.
    together: AtomicU64,
    /// The units that were covered in this epoch, and in the old one.
    covered: Mutex<[Vec<u64>; 2]>,
}

impl Units {
    /// Returns free units of `unit` bytes, a power of two, for a pool of `len` bytes.
    pub(super) fn new(len: u64, unit: u64) -> Units {
        let words = len.div_ceil(unit).div_ceil(IN_WORD).max(1);
        Units {
            states: free_words(words as usize),
            grown: [const { OnceLock::new() }; PIECES],
            len: AtomicU64::new(len),
            shift: unit.trailing_zeros(),
            epoch: AtomicU64::new(0),
            together: AtomicU64::new(if unit <= UNIT { NEIGHBOURS } else { 1 }),
            covered: Mutex::new([Vec::new(), Vec::new()]),
        }
    }

    /// Returns the numbers of the units that hold a range.
    pub(super) fn of(&self, at: PoolOffset, len: u64) -> Range<u64> {
        let last = at.get() + len.saturating_sub(1);
        if len == 0 { 0..0 } else { at.get() >> self.shift..(last >> self.shift) + 1 }
    }

    /// Returns the range of `count` units: its offset and its length in bytes.
    pub(super) fn place(&self, first: u64, count: u64) -> (PoolOffset, u64) {
        let at = first << self.shift;
        (PoolOffset::new(at), (count << self.shift).min(self.len() - at))
    }

    /// Returns the length of the pool in bytes.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        // ORDER: acquires the states of the units up to there.
        self.len.load(Ordering::Acquire)
    }

    /// Adds free units for a pool that has grown to `len` bytes. A shorter length changes nothing.
    pub(super) fn grow(&self, len: u64) {
        let words = len.div_ceil(self.unit_len()).div_ceil(IN_WORD) as usize;
        for (piece, states) in self.grown.iter().enumerate() {
            let first = self.states.len() << piece;
            if words <= first {
                break;
            }
            states.get_or_init(|| free_words(first));
        }
        // ORDER: releases the states before a thread asks for one of them.
        self.len.fetch_max(len, Ordering::Release);
    }

    /// Returns the number of units.
    pub(super) fn count(&self) -> u64 {
        self.len().div_ceil(self.unit_len())
    }

    /// Returns the number of units in a row that are logged together, a power of two.
    #[inline]
    pub(super) fn together(&self) -> u64 {
        // ORDER: none: a choice that changes no result.
        self.together.load(Ordering::Relaxed)
    }

    /// Returns the length of a unit in bytes.
    pub(super) fn unit_len(&self) -> u64 {
        1 << self.shift
    }

    /// Returns the state of a unit. A unit that is covered may be so in the old epoch only, unless the caller holds a lane, or has
    /// registered a range in it.
    pub(super) fn state(&self, unit: u64) -> UnitState {
        // ORDER: the epoch first: a thread that reads the old one had registered its range before the checkpoint looked for it.
        let covered = self.covered_code();
        match self.code(unit) {
            FREE => UnitState::Free,
            CLAIMED => UnitState::Claimed,
            code if code == covered => UnitState::Covered,
            _ => UnitState::Old,
        }
    }

    /// Returns true if the log covers all of the units in this epoch.
    #[inline]
    pub(super) fn are_covered(&self, units: Range<u64>) -> bool {
        // ORDER: the epoch first, as in `state`.
        let covered = self.covered_code();
        self.all_have(units, covered)
    }

    /// Returns true if all of the units are free.
    #[inline]
    pub(super) fn are_free(&self, units: Range<u64>) -> bool {
        self.all_have(units, FREE)
    }

    #[inline]
    fn all_have(&self, units: Range<u64>, code: u64) -> bool {
        let pattern = code * (u64::MAX / 3);
        let mut unit = units.start;
        while unit < units.end {
            let (word, shift) = self.word_of(unit);
            let count = (IN_WORD - unit % IN_WORD).min(units.end - unit);
            let mask = u64::MAX >> (64 - 2 * count) << shift;
            // ORDER: one order with the changes.
            if (word.load(Ordering::SeqCst) ^ pattern) & mask != 0 {
                return false;
            }
            unit += count;
        }
        true
    }

    /// Claims a unit that is free, or covered in the old epoch only. Returns true if the caller is to log its image. The caller holds
    /// a lane.
    pub(super) fn claim(&self, unit: u64) -> bool {
        let covered = self.covered_code();
        self.change(unit, |code| (code != CLAIMED && code != covered).then_some(CLAIMED))
    }

    /// Covers units whose images are durable. The caller holds a lane, and has held it since it claimed them. `exclusive`: no other
    /// lane can be held meanwhile.
    pub(super) fn cover(&self, units: &[u64], exclusive: bool) {
        let covered = self.covered_code();
        for unit in units {
            if exclusive {
                self.replace(*unit, covered);
            } else {
                self.change(*unit, |_| Some(covered));
            }
        }
    }

    /// Notes units that were covered in this epoch, before the next one begins.
    pub(super) fn note_covered(&self, units: &[u64]) {
        self.lists()[0].extend(units);
    }

    /// Chooses whether neighbours are logged together, at the end of an epoch in which so many ranges were added. An image costs little
    /// more if it is longer, for most of the cost is its drain; but it takes more of the log. So neighbours pay if they save images,
    /// and not if few units are used again before the log is full.
    fn choose_together(&self, covered: u64, ranges: u64) {
        if ranges == 0 || self.unit_len() > UNIT {
            return;
        }
        let together = self.together();
        let images = covered / together;
        let is_worthwhile = if together == 1 { images * 5 < ranges * 4 } else { images * 4 < ranges * 3 };
        // ORDER: as in `together`.
        self.together.store(if is_worthwhile { NEIGHBOURS } else { 1 }, Ordering::Relaxed);
    }

    /// Begins the next epoch, in which no unit is covered. So many `ranges` were added in the one that ends. The caller holds all lanes.
    pub(super) fn begin_epoch(&self, ranges: u64) {
        // ORDER: one order with the questions of threads that hold no lane.
        self.epoch.fetch_add(1, Ordering::SeqCst);
        {
            let mut covered = self.lists();
            debug_assert!(covered[1].is_empty(), "the epoch before the old one has ended");
            self.choose_together(covered[0].len() as u64, ranges);
            covered[1] = mem::take(&mut covered[0]);
        }
        if bugs::ONE_EPOCH.is_active() {
            self.forget_old();
        }
    }

    /// Frees the units that are covered in the old epoch only. The caller holds all lanes.
    pub(super) fn forget_old(&self) {
        let old = mem::take(&mut self.lists()[1]);
        let covered = self.covered_code();
        for unit in old {
            let code = self.code(unit);
            if code != CLAIMED && code != covered {
                self.replace(unit, FREE);
            }
        }
    }

    fn lists(&self) -> MutexGuard<'_, [Vec<u64>; 2]> {
        self.covered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn covered_code(&self) -> u64 {
        // ORDER: one order with `begin_epoch`.
        COVERED + self.epoch.load(Ordering::SeqCst) % 2
    }

    fn code(&self, unit: u64) -> u64 {
        let (word, shift) = self.word_of(unit);
        // ORDER: one order with the changes.
        word.load(Ordering::SeqCst) >> shift & 3
    }

    /// Replaces the state of a unit. No other thread holds a lane, so none changes a state meanwhile.
    #[inline]
    fn replace(&self, unit: u64, code: u64) {
        let (word, shift) = self.word_of(unit);
        // ORDER: none: the last change of the word was by a thread that held a lane before.
        let found = word.load(Ordering::Relaxed);
        // ORDER: releases the image, which is durable, to those that find the unit covered. A locked instruction would wait for its
        // drain.
        word.store(found & !(3 << shift) | code << shift, Ordering::Release);
    }

    /// Changes the state of a unit to the code that `change` returns. Returns false if that is none.
    fn change(&self, unit: u64, change: impl Fn(u64) -> Option<u64>) -> bool {
        let (word, shift) = self.word_of(unit);
        // ORDER: none: compared again.
        let mut found = word.load(Ordering::Relaxed);
        while let Some(code) = change(found >> shift & 3) {
            let new = found & !(3 << shift) | code << shift;
            // ORDER: one order with the questions of persists: either these see the claim, or the image sees their stores.
            match word.compare_exchange(found, new, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(other) => found = other,
            }
        }
        false
    }

    /// Returns the word with the state of a unit, and the place of its lowest bit.
    #[inline]
    fn word_of(&self, unit: u64) -> (&AtomicU64, u64) {
        let index = (unit / IN_WORD) as usize;
        let word = match self.states.get(index) {
            Some(word) => word,
            None => self.grown_word(index),
        };
        (word, unit % IN_WORD * 2)
    }

    /// Returns a word of the states of bytes by which the pool has grown.
    #[cold]
    fn grown_word(&self, index: usize) -> &AtomicU64 {
        let piece = (index / self.states.len()).ilog2() as usize;
        let states = self.grown[piece].get().map_or(&[][..], |states| states);
        &states[index - (self.states.len() << piece)]
    }
}

/// Returns words of free units. Their memory is as the kernel gives it, so that words of units that are never used take none.
#[cfg(not(any(loom, lode_bugs)))]
fn free_words(count: usize) -> Box<[AtomicU64]> {
    use zerocopy::FromZeros;
    let zeroed = <[AtomicU64]>::new_box_zeroed_with_elems(count);
    zeroed.unwrap_or_else(|_| (0..count).map(|_| AtomicU64::new(0)).collect())
}

/// As above, of the words of the model checker and of the explorer, which are no plain memory.
#[cfg(any(loom, lode_bugs))]
fn free_words(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

#[cfg(all(test, not(loom)))]
mod test {
    use super::*;

    /// Each unit has a state of its own, in whatever steps the pool has grown.
    #[test]
    fn units_of_a_grown_pool_are_apart() {
        const STEP: u64 = 40 << 10;
        let units = Units::new(STEP, UNIT);
        for len in [2 * STEP, 2 * STEP, 3 * STEP, 9 * STEP + 100, STEP] {
            units.grow(len);
        }
        assert_eq!((units.len(), units.count()), (9 * STEP + 100, 9 * STEP / UNIT + 1));
        assert_eq!(units.place(units.count() - 1, 1), (PoolOffset::new(9 * STEP), 100));
        for unit in 0..units.count() {
            assert_eq!(units.state(unit), UnitState::Free, "{unit}");
            assert!(units.claim(unit) && !units.claim(unit));
        }
    }
}
