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
use crate::read_set::ReadSet;
use crate::snapshot::KeepReplaced;
use lode_layout::{Entries, Entry, PoolOffset, WORD};
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
    reads: &'a mut ReadSet,
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
        reads: &'a mut ReadSet,
        is_short: bool,
        is_later: bool,
    ) -> Self {
        HeapHooks { heap, keep, space, held, reads, is_short, is_later, handed: Vec::new(), noted: None }
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
    fn admits(&mut self, closed: u64) -> bool {
        if self.reads.is_empty() {
            return true;
        }
        // A snapshot of a later number may see what replaced the reads, and not this transaction, which comes before that.
        let opened = self.heap.snapshots().last_opened();
        if self.validated_at() < opened.max(closed) {
            // ORDER: before the versions are loaded: locks of the transactions up to this number were taken before.
            let last = self.heap.last_commit();
            let is_early = bugs::SNAPSHOT_BEFORE_EARLY_READS.is_active();
            if is_early || self.reads.hold_still(self.heap.locks(), self.held) {
                self.reads.snapshot = last;
            }
        }
        opened <= self.validated_at() || bugs::SNAPSHOT_BETWEEN_READS_AND_NUMBER.is_active()
    }

    #[inline]
    fn validated_at(&self) -> u64 {
        if self.reads.is_empty() { u64::MAX } else { self.heap.sequence_of(self.reads.snapshot) }
    }

    fn replaced(&self, entries: &[u64]) -> Option<Vec<(PoolOffset, PoolOffset)>> {
        self.is_short.then(|| self.keep.replaced(entries).collect())
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
