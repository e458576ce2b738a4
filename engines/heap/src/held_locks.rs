//! The locks that a transaction holds.

use crate::locks::{STRIPES, Stripe};

/// The stripes of the lock table that a transaction holds, in the order in which it took them.
///
/// # Cost
/// Each question is answered in constant time, however many locks are held.
#[derive(Debug)]
pub(crate) struct HeldLocks {
    /// Each lock, and the greatest one up to it.
    taken: Vec<(Stripe, Stripe)>,
    /// A bit for each stripe of the table.
    bits: Box<[u64]>,
}

impl HeldLocks {
    pub(crate) fn new() -> HeldLocks {
        HeldLocks { taken: Vec::new(), bits: vec![0; STRIPES.div_ceil(64)].into() }
    }

    /// Returns the number of locks that are held.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    /// Returns true if no lock is held.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Returns true if the lock is held.
    #[inline]
    pub(crate) fn contains(&self, stripe: Stripe) -> bool {
        self.bits[stripe.index() / 64] & 1 << (stripe.index() % 64) != 0
    }

    /// Returns the greatest lock that is held.
    pub(crate) fn greatest(&self) -> Option<Stripe> {
        self.taken.last().map(|(_, greatest)| *greatest)
    }

    /// Adds a lock that is not held yet.
    #[inline]
    pub(crate) fn push(&mut self, stripe: Stripe) {
        debug_assert!(!self.contains(stripe), "a lock is taken once");
        self.bits[stripe.index() / 64] |= 1 << (stripe.index() % 64);
        let greatest = self.taken.last().map_or(stripe, |(_, greatest)| stripe.max(*greatest));
        self.taken.push((stripe, greatest));
    }

    /// Removes the locks that were added when `count` were held, and passes them to `release`.
    #[inline]
    pub(crate) fn truncate(&mut self, count: usize, mut release: impl FnMut(Stripe)) {
        let count = count.min(self.taken.len());
        for (stripe, _) in self.taken.drain(count..) {
            self.bits[stripe.index() / 64] &= !(1 << (stripe.index() % 64));
            release(stripe);
        }
    }
}
