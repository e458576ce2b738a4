//! Locks for words in the pool. They live in DRAM, so they are open after every start.

use lode_layout::PoolOffset;
use lode_pmem::sync::{AtomicU64, Ordering};

/// Number of stripes, a power of two.
pub(crate) const STRIPES: usize = if cfg!(loom) { 2 } else { 1 << 14 };

const HELD: u64 = 1;

/// The version of a lock's stripe at some moment. It changes each time that the lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

impl Version {
    /// Returns true if a thread holds the lock.
    #[inline]
    pub fn is_held(self) -> bool {
        self.0 & HELD != 0
    }
}

/// A stripe of the table: offsets that share one share their lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stripe(u32);

impl Stripe {
    /// Returns the stripe's number, less than [`STRIPES`].
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize % STRIPES
    }
}

/// One versioned lock for each of many offsets.
#[derive(Debug)]
pub(crate) struct LockTable {
    stripes: Box<[AtomicU64]>,
}

impl LockTable {
    pub(crate) fn new() -> LockTable {
        LockTable { stripes: (0..STRIPES).map(|_| AtomicU64::new(0)).collect() }
    }

    #[inline]
    pub(crate) fn stripe(&self, at: PoolOffset) -> Stripe {
        // Objects lie at multiples of 16; the multiplier spreads neighbours over the table.
        let mixed = (at.get() >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Stripe((mixed >> (64 - STRIPES.trailing_zeros())) as u32)
    }

    #[inline]
    pub(crate) fn version(&self, stripe: Stripe) -> Version {
        // ORDER: acquires the stores of the thread that held the lock last; loads of what it guards come after.
        Version(self.word(stripe).load(Ordering::Acquire))
    }

    /// Takes the lock if its version is still `version`.
    #[inline]
    pub(crate) fn take(&self, stripe: Stripe, version: Version) -> bool {
        let held = version.0 | HELD;
        // ORDER: acquires as `version` does. If the version did not change, words that were loaded since it was read
        // have not changed either: loads before this can't be delayed past a locked instruction.
        !version.is_held()
            && self
                .word(stripe)
                .compare_exchange(version.0, held, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Releases the lock under a new version.
    #[inline]
    pub(crate) fn release(&self, stripe: Stripe) {
        let word = self.word(stripe);
        // ORDER: none: the holder alone changes the word.
        let held = word.load(Ordering::Relaxed);
        // ORDER: releases the holder's write-backs, which are durable by then.
        word.store((held & !HELD).wrapping_add(2), Ordering::Release);
    }

    fn word(&self, stripe: Stripe) -> &AtomicU64 {
        &self.stripes[stripe.index()]
    }
}
