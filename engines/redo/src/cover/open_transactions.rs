//! The transactions that are open.

use super::snapshots::Snapshots;
use crate::bugs;
use lode_pmem::Medium;
use lode_pmem::biased::{Bias, Biased, BiasedGuard, Owner};
use lode_pmem::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, asymmetric, thread_local};
use std::cell::Cell;

/// The place of a transaction. It belongs to no thread: one that ends with an open transaction leaves it open.
#[derive(Debug)]
#[repr(align(128))]
struct Place {
    /// Changed while the snapshots are held.
    is_taken: AtomicBool,
    /// Number of transactions at this place that have ended. Changed while the snapshots are held.
    ended: AtomicU64,
    /// A transaction takes this for each range, so it is biased to the thread that took the place, until another thread looks.
    snapshots: Biased<Snapshots>,
}

thread_local! {
    /// The place of this thread's last transaction, of any memory.
    static HINT: Cell<usize> = const { Cell::new(0) };
}

/// The places of all open transactions.
#[derive(Debug)]
pub(super) struct OpenTransactions {
    places: Box<[Place]>,
    /// Number of places that were ever taken, the first ones.
    used: AtomicUsize,
}

impl OpenTransactions {
    /// Returns places for so many transactions, in units of so many bytes.
    pub(super) fn new(count: usize, unit_len: u64) -> OpenTransactions {
        let place = || Place {
            is_taken: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            snapshots: Biased::new(Snapshots::new(unit_len)),
        };
        OpenTransactions { places: (0..count).map(|_| place()).collect(), used: AtomicUsize::new(0) }
    }

    /// Takes a free place, preferably that of this thread's last transaction, if this memory has ever used it. Returns `None` if there is
    /// none.
    #[inline]
    pub(super) fn take<M: Medium>(&self, medium: &M) -> Option<usize> {
        let hint = HINT.with(Cell::get);
        if let Some(place) = self.used().get(hint)
            && let Some(mut snapshots) = place.snapshots.enter().or_else(|| place.snapshots.try_lock())
            && place.take(&mut snapshots)
        {
            return Some(hint);
        }
        self.take_any(medium)
    }

    #[cold]
    fn take_any<M: Medium>(&self, medium: &M) -> Option<usize> {
        // Those that are biased to this thread, and those that no thread has.
        let free = |place: &Place| {
            let held = place.snapshots.enter().or_else(|| place.snapshots.try_lock());
            held.is_some_and(|mut held| place.take(&mut held))
        };
        let any = |place: &Place| place.take(&mut hold(&place.snapshots, medium));
        let take_with = |take: &dyn Fn(&Place) -> bool| {
            self.places.iter().position(|place| !place.is_taken() && take(place))
        };
        let place = take_with(&free).or_else(|| take_with(&any))?;
        HINT.with(|hint| hint.set(place));
        self.note_used(place);
        Some(place)
    }

    fn note_used(&self, place: usize) {
        // ORDER: one order with the threads that look for snapshots: they see all that were kept before their question.
        self.used.fetch_max(place + 1, Ordering::SeqCst);
    }

    /// Returns the number of places.
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    fn used(&self) -> &[Place] {
        // ORDER: as in `note_used`.
        &self.places[..self.used.load(Ordering::SeqCst)]
    }

    /// Returns the places of the open transactions.
    pub(super) fn taken(&self) -> Vec<usize> {
        (0..self.places.len()).filter(|place| self.places[*place].is_taken()).collect()
    }

    /// Returns the number of transactions that have ended.
    pub(super) fn ended(&self) -> u64 {
        // ORDER: acquires what these transactions have stored, the bytes that they put back included.
        self.used().iter().map(|place| place.ended.load(Ordering::Acquire)).sum()
    }

    /// Gives a place back. The transaction has stored all that its end stores. `end` is called before with its snapshots.
    pub(super) fn leave<M: Medium>(&self, place: usize, medium: &M, end: impl FnOnce(&mut Snapshots)) {
        let mut snapshots = self.snapshots(place, medium);
        let place = &self.places[place];
        // ORDER: counted before the ranges are forgotten, which the lock releases: a persist that has read stores of the transaction
        // and does not find its ranges sees that one has ended. The lock admits one thread, so nothing else changes the number.
        let ended = place.ended.load(Ordering::Relaxed);
        place.ended.store(ended + 1, Ordering::Release);
        end(&mut snapshots);
        snapshots.clear();
        // ORDER: for those that look for a free place; the lock releases the empty one.
        place.is_taken.store(false, Ordering::Release);
    }

    /// Returns true if the snapshots of a place are held.
    #[cfg(test)]
    pub(super) fn is_held(&self, place: usize) -> bool {
        let snapshots = &self.places[place].snapshots;
        snapshots.enter().or_else(|| snapshots.try_lock()).is_none()
    }

    /// Returns the snapshots of the transaction at a place. The caller makes no call of the medium that stores while it has them.
    #[inline]
    pub(super) fn snapshots<M: Medium>(&self, place: usize, medium: &M) -> BiasedGuard<'_, Snapshots> {
        hold(&self.places[place].snapshots, medium)
    }

    /// Calls `with` for the snapshots of each open transaction.
    pub(super) fn each<M: Medium>(&self, medium: &M, mut with: impl FnMut(&Snapshots)) {
        self.used().iter().for_each(|place| with(&hold(&place.snapshots, medium)));
    }

    /// Calls `with` for the snapshots of each place that was ever taken, and with true if it is now.
    pub(super) fn each_place<M: Medium>(&self, medium: &M, mut with: impl FnMut(&mut Snapshots, bool)) {
        for place in self.used() {
            let mut snapshots = hold(&place.snapshots, medium);
            with(&mut snapshots, place.is_taken());
        }
    }

    /// Calls `with` for all snapshots at the end of an epoch. Each place may be biased again.
    pub(super) fn end_epoch<M: Medium>(&self, medium: &M, mut with: impl FnMut(&mut Snapshots)) {
        for place in self.used() {
            let mut snapshots = hold(&place.snapshots, medium);
            with(&mut snapshots);
            (snapshots.added, snapshots.is_shared) = (0, false);
        }
    }

    /// Holds all transactions: none ends or adds a range meanwhile, and none begins at a place that was taken before.
    pub(super) fn hold_all<M: Medium>(&self, medium: &M) -> HeldTransactions<'_> {
        // In the order of the places: two threads that hold all do not wait for each other.
        let held = self.used().iter().map(|place| hold(&place.snapshots, medium)).collect();
        HeldTransactions { open: self, held }
    }

    /// Replaces those of `bytes`, the content from `at` on, that an open transaction has changed or may change, by the old ones.
    /// Returns false if one that is committing has some of them: they are neither its old ones nor durable. `passes_committing`: the
    /// caller's record comes after the record of such a transaction, and is durable only with it. Its words that are still to be
    /// stored are put in then.
    pub(super) fn overlay<M: Medium>(
        &self,
        medium: &M,
        at: u64,
        bytes: &mut [u8],
        passes_committing: bool,
    ) -> bool {
        let mut is_settled = true;
        self.each(medium, |snapshots| is_settled &= put_in(snapshots, at, bytes, passes_committing));
        is_settled
    }
}

/// All transactions, none of which ends or adds a range.
#[derive(Debug)]
pub(super) struct HeldTransactions<'o> {
    open: &'o OpenTransactions,
    held: Vec<BiasedGuard<'o, Snapshots>>,
}

impl HeldTransactions<'_> {
    /// Puts old bytes in, as [`overlay`](OpenTransactions::overlay) does.
    pub(super) fn overlay(&self, at: u64, bytes: &mut [u8], passes_committing: bool) -> bool {
        self.held
            .iter()
            .fold(true, |is_settled, held| put_in(held, at, bytes, passes_committing) & is_settled)
    }

    /// Returns false if a transaction has begun at a place that was never taken before.
    pub(super) fn are_all(&self) -> bool {
        self.open.used().len() == self.held.len()
    }
}

/// Replaces those of `bytes` that a transaction has changed or may change, as [`overlay`](OpenTransactions::overlay) does for all.
fn put_in(snapshots: &Snapshots, at: u64, bytes: &mut [u8], passes_committing: bool) -> bool {
    if !snapshots.overlaps(at..at + bytes.len() as u64) {
        return true;
    }
    if snapshots.is_committing() && passes_committing {
        snapshots.overlay_pending(at, bytes);
        return true;
    }
    snapshots.overlay(at, bytes);
    !snapshots.is_committing() || bugs::COMMIT_NOT_AWAITED.is_active()
}

impl Place {
    fn is_taken(&self) -> bool {
        // ORDER: acquires the transaction at the place, for its abort at the end.
        self.is_taken.load(Ordering::Acquire)
    }

    /// Takes the place, whose snapshots the caller holds, if it is free.
    #[inline]
    fn take(&self, snapshots: &mut BiasedGuard<'_, Snapshots>) -> bool {
        let is_free = !self.is_taken();
        if is_free {
            // ORDER: released with the lock.
            self.is_taken.store(true, Ordering::Relaxed);
            if !snapshots.is_shared && asymmetric::is_available() {
                snapshots.bias(Bias::To(Owner::current()));
            }
        }
        is_free
    }
}

/// Holds the snapshots of a place, whatever their bias.
#[inline]
fn hold<'a, M: Medium>(lock: &'a Biased<Snapshots>, medium: &M) -> BiasedGuard<'a, Snapshots> {
    match lock.enter() {
        Some(guard) => guard,
        None => hold_unbiased(lock, medium),
    }
}

fn hold_unbiased<'a, M: Medium>(lock: &'a Biased<Snapshots>, medium: &M) -> BiasedGuard<'a, Snapshots> {
    for round in 0.. {
        let any = |bias| matches!(bias, Bias::To(_));
        if let Some(snapshots) = lock.try_lock() {
            return snapshots;
        }
        if let Some(mut snapshots) = lock.revoke(any, |round| medium.relax(round)) {
            snapshots.is_shared = true;
            return snapshots;
        }
        medium.relax(round);
    }
    unreachable!("the loop ends with the lock")
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_testing::memory::volatile;

    /// Places that no transaction has had are looked at by no persist, and need no bias.
    #[test]
    fn thread_begins_in_a_new_memory_at_the_first_place() {
        let medium = volatile(4096);
        let [old, new] = [OpenTransactions::new(4, 256), OpenTransactions::new(4, 256)];
        assert_eq!([old.take(&medium), old.take(&medium)], [Some(0), Some(1)]);
        old.leave(1, &medium, |_| ());
        assert_eq!(old.take(&medium), Some(1));
        assert_eq!(new.take(&medium), Some(0));
        assert_eq!(new.used().len(), 1);
    }

    /// It finds its own places again, however often it changes.
    #[test]
    fn thread_of_two_memories_collects_no_places() {
        let medium = volatile(4096);
        let [shared, own] = [OpenTransactions::new(4, 256), OpenTransactions::new(4, 256)];
        std::thread::scope(|scope| {
            let other = || assert_eq!(shared.take(&medium), Some(0));
            scope.spawn(other).join().expect("it takes a place");
        });
        for _ in 0..3 {
            for (memory, place) in [(&shared, 1), (&own, 0)] {
                assert_eq!(memory.take(&medium), Some(place));
                memory.leave(place, &medium, |_| ());
            }
        }
        assert_eq!((shared.used().len(), own.used().len()), (2, 1));
    }
}
