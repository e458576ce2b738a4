//! The heap's part in the middle of a commit: keeps replaced words for snapshots, and hands locks on.
//!
//! At durability commit a transaction waits for a sync while its record lies in the log already. From that moment on it
//! becomes durable, or no later transaction does. So its locks go to the next transaction at once, with the words that
//! it has changed; see [`pending_words`](crate::pending_words). A transaction that has taken or freed spans of chunks, or
//! is longer than a record, keeps its locks: others find spans by what lies in the pool.

use crate::alloc::allocations::Allocations;
use crate::heap::Heap;
use crate::held_locks::HeldLocks;
use crate::locks::Stripe;
use crate::snapshot::KeepReplaced;
use lode_layout::{Entries, Entry, WORD};
use lode_pmem::Medium;
use lode_redo::{CommitHooks, bugs};

/// Maximum number of changed bytes of a transaction that hands its locks on. Each other transaction that sees them copies
/// a part of them, and they lie in DRAM meanwhile.
const PENDING_MAX: u64 = 64 << 10;

/// The hooks of a commit of the heap.
pub(crate) struct HeapHooks<'a, M: Medium> {
    heap: &'a Heap<M>,
    keep: KeepReplaced<'a, M>,
    space: &'a Allocations,
    held: &'a mut HeldLocks,
    /// True if the transaction is not longer than a record.
    is_short: bool,
    /// The locks that were handed on.
    handed: Vec<Stripe>,
}

impl<'a, M: Medium> HeapHooks<'a, M> {
    #[inline]
    pub(crate) fn new(
        heap: &'a Heap<M>,
        keep: KeepReplaced<'a, M>,
        space: &'a Allocations,
        held: &'a mut HeldLocks,
        is_short: bool,
    ) -> Self {
        HeapHooks { heap, keep, space, held, is_short, handed: Vec::new() }
    }
}

impl<M: Medium> CommitHooks for HeapHooks<'_, M> {
    #[inline]
    fn admits(&mut self) -> bool {
        self.keep.admits()
    }

    #[inline]
    fn wants_entries(&mut self) -> bool {
        self.keep.wants_entries()
    }

    fn before_write_back(&mut self, sequence: u64, entries: &[u64]) {
        self.keep.keep(sequence, entries);
    }

    fn appended(&mut self, sequence: u64, entries: &[u64]) {
        let Some(pending) = self.heap.pending() else { return };
        if self.held.is_empty() || !self.is_short || !self.space.keeps_spans() || is_large(entries) {
            return;
        }
        // ORDER: the words are there before the locks are handed on.
        if !bugs::HANDED_ON_WITHOUT_WORDS.is_active() {
            pending.add(sequence, entries);
        }
        let (locks, number) = (self.heap.locks(), self.heap.number_of(sequence));
        let handed = &mut self.handed;
        self.held.truncate(0, |stripe| {
            locks.hand_on(stripe, number);
            handed.push(stripe);
        });
    }

    fn written_back(&mut self, sequence: u64, entries: &[u64]) {
        if let Some(pending) = self.heap.pending()
            && !self.handed.is_empty()
        {
            let (locks, number) = (self.heap.locks(), self.heap.number_of(sequence));
            self.handed.drain(..).for_each(|stripe| locks.settle(stripe, number));
            pending.remove(entries);
        }
    }
}

/// Returns true if the entries change more than [`PENDING_MAX`] bytes.
fn is_large(entries: &[u64]) -> bool {
    let zeroed = Entries::new(entries).map_while(Result::ok).map(|entry| match entry {
        Entry::Zero { len, .. } => len,
        _ => 0,
    });
    entries.len() as u64 * WORD + zeroed.sum::<u64>() > PENDING_MAX
}
