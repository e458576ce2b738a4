//! The transactions that are open.

use super::snapshots::Snapshots;
use crate::bugs;
use lode_pmem::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, SpinMutex, SpinMutexGuard};
use lode_pmem::{Medium, hold};
use std::ops::Range;

/// The place of a transaction. It belongs to no thread: one that ends with an open transaction leaves it open.
#[derive(Debug)]
#[repr(align(128))]
struct Place {
    is_taken: AtomicBool,
    snapshots: SpinMutex<Snapshots>,
}

/// The places of all open transactions.
#[derive(Debug)]
pub(super) struct OpenTransactions {
    places: Box<[Place]>,
    /// Number of places that were ever taken, the first ones.
    used: AtomicUsize,
    /// Number of transactions that have ended.
    ended: AtomicU64,
}

impl OpenTransactions {
    /// Returns places for so many transactions.
    pub(super) fn new(count: usize) -> OpenTransactions {
        let place =
            || Place { is_taken: AtomicBool::new(false), snapshots: SpinMutex::new(Snapshots::default()) };
        OpenTransactions {
            places: (0..count).map(|_| place()).collect(),
            used: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
        }
    }

    /// Takes a free place. Returns `None` if there is none.
    pub(super) fn take(&self) -> Option<usize> {
        let place = self.places.iter().position(|place| {
            // ORDER: acquires the place from the transaction that left it.
            !place.is_taken.load(Ordering::Relaxed) && !place.is_taken.swap(true, Ordering::Acquire)
        })?;
        // ORDER: one order with the threads that look for snapshots: they see all that were kept before their question.
        self.used.fetch_max(place + 1, Ordering::SeqCst);
        Some(place)
    }

    /// Returns the number of places.
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns the places of the open transactions.
    pub(super) fn taken(&self) -> Vec<usize> {
        // ORDER: acquires the transactions at the places.
        let is_taken = |place: &usize| self.places[*place].is_taken.load(Ordering::Acquire);
        (0..self.places.len()).filter(is_taken).collect()
    }

    /// Returns the number of transactions that have ended.
    pub(super) fn ended(&self) -> u64 {
        // ORDER: one order with `leave`.
        self.ended.load(Ordering::SeqCst)
    }

    /// Gives a place back. The transaction has stored all that its end stores.
    pub(super) fn leave<M: Medium>(&self, place: usize, medium: &M) {
        // ORDER: counted before the ranges are forgotten: a persist that has read stores of the transaction and does not find
        // its ranges sees that one has ended.
        self.ended.fetch_add(1, Ordering::SeqCst);
        self.snapshots(place, medium).clear();
        // ORDER: releases the empty place.
        self.places[place].is_taken.store(false, Ordering::Release);
    }

    /// Returns the snapshots of the transaction at a place. The caller makes no call of the medium that stores while it has them.
    pub(super) fn snapshots<M: Medium>(&self, place: usize, medium: &M) -> SpinMutexGuard<'_, Snapshots> {
        hold(&self.places[place].snapshots, medium)
    }

    /// Calls `with` for the snapshots of each open transaction.
    pub(super) fn each<M: Medium>(&self, medium: &M, mut with: impl FnMut(&Snapshots)) {
        // ORDER: as in `take`.
        for place in 0..self.used.load(Ordering::SeqCst) {
            with(&self.snapshots(place, medium));
        }
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
        let range: Range<u64> = at..at + bytes.len() as u64;
        let mut is_settled = true;
        self.each(medium, |snapshots| {
            if !snapshots.overlaps(range.clone()) {
                return;
            }
            if snapshots.is_committing() && passes_committing {
                return snapshots.overlay_pending(at, bytes);
            }
            is_settled &= !snapshots.is_committing() || bugs::COMMIT_NOT_AWAITED.is_active();
            snapshots.overlay(at, bytes);
        });
        is_settled
    }
}
