//! The heap's part in the middle of a commit: keeps replaced words for snapshots, and hands locks on.
//!
//! At durability commit a transaction waits for a sync while its record lies in the log already. From that moment on it
//! becomes durable, or no later transaction does. So its locks go to the next transaction at once, with the words that
//! it has changed; see [`pending_words`](crate::pending_words). A transaction that has freed spans of chunks or made
//! huge objects, or is longer than a record, keeps its locks. Superblocks that it has made are known before.

use crate::alloc::allocations::Allocations;
use crate::heap::Heap;
use crate::held_locks::HeldLocks;
use crate::later::NotedEnd;
use crate::locks::Stripe;
use crate::snapshot::KeepReplaced;
use lode_layout::{Entries, Entry, WORD};
use lode_pmem::Medium;
use lode_redo::{AppendedRecord, CommitHooks, bugs};
use std::mem;

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
    /// True if the transaction is to return before its sync.
    is_later: bool,
    /// The locks that were handed on.
    handed: Vec<Stripe>,
    /// The last steps of a transaction that returns before its sync.
    noted: Option<NotedEnd>,
}

impl<'a, M: Medium> HeapHooks<'a, M> {
    #[inline]
    pub(crate) fn new(
        heap: &'a Heap<M>,
        keep: KeepReplaced<'a, M>,
        space: &'a Allocations,
        held: &'a mut HeldLocks,
        is_short: bool,
        is_later: bool,
    ) -> Self {
        HeapHooks { heap, keep, space, held, is_short, is_later, handed: Vec::new(), noted: None }
    }

    /// Returns the last steps of the transaction, if it returns before its sync.
    #[inline]
    pub(crate) fn into_noted(self) -> Option<NotedEnd> {
        self.noted
    }

    /// Returns true if the transaction, whose record has these entries, hands its locks on.
    fn may_hand_on(&self, entries: &[u64]) -> bool {
        !self.held.is_empty() && self.is_short && self.space.keeps_spans() && !is_large(entries)
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

    #[inline]
    fn waiting_max(&self, entries: &[u64]) -> Option<u64> {
        (self.is_later && self.may_hand_on(entries)).then(|| self.heap.later().waiting_max())
    }

    fn appended(&mut self, record: &AppendedRecord, entries: &[u64]) {
        let Some(pending) = self.heap.pending().filter(|_| self.may_hand_on(entries)) else { return };
        // ORDER: the words are there before the locks are handed on.
        if !bugs::HANDED_ON_WITHOUT_WORDS.is_active() {
            pending.add(record, entries);
        }
        self.space.register_superblocks(self.heap.shared());
        let (locks, number) = (self.heap.locks(), self.heap.number_of(record.sequence));
        let handed = &mut self.handed;
        self.held.truncate(0, |stripe| {
            locks.hand_on(stripe, number);
            handed.push(stripe);
        });
        if record.returns_early {
            self.heap.later().note(record);
            let (entries, handed) = (entries.to_vec(), mem::take(&mut self.handed));
            self.noted = Some(NotedEnd { sequence: record.sequence, entries, handed, freed: None });
        }
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
