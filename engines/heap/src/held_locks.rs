//! The locks that a transaction holds.

use crate::locks::{STRIPES, Stripe};

/// Maximum number of locks that are looked at one by one.
const LIST_MAX: usize = 8;

/// The stripes of the lock table that a transaction holds, in the order in which it took them.
///
/// # Cost
/// Each question is answered in constant time, however many locks are held.
#[derive(Debug)]
pub(crate) struct HeldLocks {
    /// Each lock, and the greatest one up to it.
    taken: Vec<(Stripe, Stripe)>,
    /// A bit for each stripe of the table, set if more than [`LIST_MAX`] locks are held and this is one.
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
        if self.taken.len() <= LIST_MAX {
            return self.taken.iter().any(|(held, _)| *held == stripe);
        }
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
        let greatest = self.taken.last().map_or(stripe, |(_, greatest)| stripe.max(*greatest));
        self.taken.push((stripe, greatest));
        if self.taken.len() > LIST_MAX {
            self.set_bits();
        }
    }

    /// Sets the bit of the last lock, and those of the others if they are not set yet.
    #[cold]
    fn set_bits(&mut self) {
        let from = if self.taken.len() == LIST_MAX + 1 { 0 } else { self.taken.len() - 1 };
        for (stripe, _) in &self.taken[from..] {
            self.bits[stripe.index() / 64] |= 1 << (stripe.index() % 64);
        }
    }

    /// Removes the locks that were added when `count` were held, and passes them to `release`.
    #[inline]
    pub(crate) fn truncate(&mut self, count: usize, mut release: impl FnMut(Stripe)) {
        let count = count.min(self.taken.len());
        if self.taken.len() > LIST_MAX {
            self.clear_bits(if count > LIST_MAX { count } else { 0 });
        }
        for (stripe, _) in self.taken.drain(count..) {
            release(stripe);
        }
    }

    /// Clears the bits of the locks from number `from` on.
    #[cold]
    fn clear_bits(&mut self, from: usize) {
        for (stripe, _) in &self.taken[from..] {
            self.bits[stripe.index() / 64] &= !(1 << (stripe.index() % 64));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod test {
    use super::*;
    use crate::locks::LockTable;
    use lode_layout::PoolOffset;

    /// Compares the set with a list, over random additions and removals around the length from which bits are used.
    #[test]
    fn held_locks_match_list() {
        let table = LockTable::new();
        let (mut held, mut list) = (HeldLocks::new(), Vec::new());
        let mut state = 5u64;
        for _ in 0..4000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = state >> 40;
            let stripe = table.stripe(PoolOffset::new(draw % 64 * 16));
            assert_eq!(held.contains(stripe), list.contains(&stripe));
            if draw.is_multiple_of(7) {
                let count = (draw / 7 % 20) as usize;
                let removed: Vec<Stripe> = list.drain(count.min(list.len())..).collect();
                let mut released = Vec::new();
                held.truncate(count, |stripe| released.push(stripe));
                assert_eq!(released, removed);
            } else if !held.contains(stripe) {
                held.push(stripe);
                list.push(stripe);
            }
            assert_eq!((held.len(), held.greatest()), (list.len(), list.iter().max().copied()));
            assert!(list.iter().all(|stripe| held.contains(*stripe)));
        }
    }
}
