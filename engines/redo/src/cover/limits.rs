//! The bytes of the log that open transactions may take. They follow from its length, and become fewer when it moves to a shorter area.

use super::HEAD_WORDS;
use lode_layout::WORD;
use lode_pmem::sync::{AtomicU64, Ordering};

/// Units whose share of the log a place keeps from one transaction to the next, if the log is long enough.
const IDLE_UNITS: u64 = 16;

/// Share of a record that the ranges of a transaction may take, in eighths: the rest is for what else it commits.
const RANGES_SHARE: u64 = 6;

/// The limits of a log of some length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Most words of a record.
    record_words: u64,
    /// Most bytes of images of the units of all open transactions.
    room: u64,
    /// Most bytes of it that a place keeps from one transaction to the next.
    idle: u64,
}

impl Limits {
    /// Returns the limits of a log with so many rings of so many bytes, for `places` transactions over units of `unit` bytes.
    pub(super) fn of(rings: u64, ring_len: u64, unit: u64, places: usize) -> Limits {
        // A quarter of each ring is left to checkpoints.
        let room = ring_len / 4 * rings / 2;
        let of_idle = IDLE_UNITS * (unit + HEAD_WORDS * WORD);
        let idle = of_idle.min(room / 2 / places.max(1) as u64);
        Limits { record_words: ring_len / 4 / WORD, room, idle }
    }

    /// Returns the most words of a record.
    pub(super) fn record_words(&self) -> u64 {
        self.record_words
    }

    /// Returns the words of a record that ranges should take at most.
    pub(super) fn ranges_words(&self) -> u64 {
        ranges_words(self.record_words)
    }

    /// Returns the most bytes of images of the units of all open transactions.
    pub(super) fn room(&self) -> u64 {
        self.room
    }

    /// Returns the bytes of the room that a place has at least whose transaction holds so many.
    pub(super) fn share_of(&self, held: u64) -> u64 {
        held.max(self.idle)
    }
}

fn ranges_words(record_words: u64) -> u64 {
    record_words / 8 * RANGES_SHARE
}

/// The limits that are in force.
#[derive(Debug)]
pub(super) struct CurrentLimits {
    record_words: AtomicU64,
    room: AtomicU64,
    idle: AtomicU64,
    /// Bytes of the room that the places of transactions have.
    held: AtomicU64,
}

impl CurrentLimits {
    pub(super) fn new(Limits { record_words, room, idle }: Limits) -> CurrentLimits {
        CurrentLimits {
            record_words: AtomicU64::new(record_words),
            room: AtomicU64::new(room),
            idle: AtomicU64::new(idle),
            held: AtomicU64::new(0),
        }
    }

    /// Puts limits in force.
    pub(super) fn set(&self, Limits { record_words, room, idle }: Limits) {
        for (limit, value) in [(&self.record_words, record_words), (&self.room, room), (&self.idle, idle)] {
            // ORDER: one order with the note that a place is used: a thread that looks at all used places afterwards has seen what a
            // transaction took under the old limits, or that transaction goes by the new ones.
            limit.store(value, Ordering::SeqCst);
        }
    }

    /// Returns the limits.
    pub(super) fn get(&self) -> Limits {
        // ORDER: none: changed with all lanes held, as the caller holds them.
        let [record_words, room, idle] =
            [&self.record_words, &self.room, &self.idle].map(|limit| limit.load(Ordering::Relaxed));
        Limits { record_words, room, idle }
    }

    /// Returns the most words of a record.
    #[inline]
    pub(super) fn record_words(&self) -> u64 {
        // ORDER: as in `set`.
        self.record_words.load(Ordering::SeqCst)
    }

    /// Returns the words of a record that ranges should take at most.
    pub(super) fn ranges_words(&self) -> u64 {
        ranges_words(self.record_words())
    }

    /// Returns true if the places have no more than the room.
    pub(super) fn are_kept(&self) -> bool {
        // ORDER: as in `set`.
        self.held.load(Ordering::SeqCst) <= self.room.load(Ordering::SeqCst)
    }

    /// Extends an allowance to `needed` bytes, or more, so that the next ranges need no further share. Returns the bytes that are left if
    /// they are too few.
    #[cold]
    pub(super) fn extend(&self, allowance: &mut u64, needed: u64) -> Result<(), u64> {
        let least = needed - *allowance;
        // ORDER: as in `set`.
        let (room, idle) = (self.room.load(Ordering::SeqCst), self.idle.load(Ordering::SeqCst));
        for more in [least.max(idle), least] {
            // ORDER: none: a bound, counted apart from what it bounds.
            let mut held = self.held.load(Ordering::Relaxed);
            while let Some(sum) = held.checked_add(more).filter(|sum| *sum <= room) {
                // ORDER: as in `set`.
                match self.held.compare_exchange(held, sum, Ordering::SeqCst, Ordering::Relaxed) {
                    Ok(_) => {
                        *allowance += more;
                        return Ok(());
                    }
                    Err(found) => held = found,
                }
            }
        }
        // ORDER: as above.
        Err(room.saturating_sub(self.held.load(Ordering::Relaxed)))
    }

    /// Gives back what a place does not keep of its allowance, of which its transaction holds so many bytes.
    #[inline]
    pub(super) fn reduce(&self, allowance: &mut u64, held: u64) {
        // ORDER: none: a place that keeps too much is asked for it by the next move.
        let kept = self.idle.load(Ordering::Relaxed).max(held);
        if let Some(more) = allowance.checked_sub(kept).filter(|more| *more > 0) {
            *allowance -= more;
            // ORDER: none: as in `extend`.
            self.held.fetch_sub(more, Ordering::Relaxed);
        }
    }
}
