//! Snapshots: the heap as it was between two commits, for as long as a reader wants, beside writers.
//!
//! ```text
//!   open    no write-back -> number S, the last one written back; keep what waiting records replace; pin -> go on
//!   commit  number n > S -> keep the words of objects that it replaces -> write them back when durable
//!   read    load the word; if a transaction after S has kept it, its first image is the word at S
//! ```
//!
//! 1. *S is a moment.* Each transaction up to S is written back, and no later one has begun to be. At durability commit
//!    records are written back in their order, a batch at a time, and a snapshot is opened between two batches
//!    (`Log::between_write_backs`). At the others a transaction holds its lane from before its number to the end of its
//!    write-backs, and all lanes are held while a snapshot is opened.
//! 2. *S is a moment of the serial order.* Reads are validated before the number is drawn, so a transaction A may have a
//!    number above that of B, which overwrites what A has read. A snapshot that sees B and not A would be of no moment. A
//!    notes the last number at its validation; B's is above it. If a snapshot above that was opened, or a batch closed, A
//!    compares its reads once more as it draws its number. If they have moved, A starts again because of the snapshot, and
//!    a snapshot waits for A's sync because of the batch.
//! 3. *A word is kept before it is replaced*, by the transaction that holds its lock. The thread that opens a snapshot
//!    keeps the words of the records that have their number then, and wait. A reader loads the word first
//!    and looks for an image then. Of each word one image for each snapshot is enough.
//! 4. *Space that a snapshot can reach is not used again*: the snapshot is pinned, as any reader. Content of new objects
//!    lies in other space, so it needs no image.
//!
//! Images are in DRAM: a snapshot ends with its process. They take private memory, and freed space of the pool waits
//! for the oldest snapshot. At the limit of either the oldest snapshot ends; its reads fail from then on, and no
//! transaction does.

mod before_images;
mod open;
mod owned;

pub(crate) use open::{OpenList, Snapshots};
pub use owned::OwnedSnapshot;

use crate::alloc::allocations::Allocations;
use crate::error::HeapError;
use crate::heap::Heap;
use lode_layout::{Entries, Entry, PoolOffset, WORD, decode_root};
use lode_pmem::{FaultScope, Medium, Readable};
use lode_redo::{WaitingRecords, bugs};
use open::OpenSnapshot;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// The heap as it was when the snapshot was opened.
///
/// It may be kept for any time, and read in any thread. It never starts again, and no transaction waits until it is
/// closed.
///
/// # Cost
/// Opening it holds up transactions that are about to commit: at durability commit until the batch that is being written back
/// is, at the others until those in their drain are. At durability commit it keeps the words that waiting records replace, at
/// most 4 MiB. It waits for their sync only if they replace more, or if one may have to come before what it sees.
/// While it is open, a transaction keeps each word of older objects that it is the first to replace:
/// about 150 bytes of private memory a line. Space that is freed meanwhile is not used again.
pub struct Snapshot<'h, M: Medium> {
    heap: &'h Heap<M>,
    key: u64,
    open: Arc<OpenSnapshot>,
    /// True if an [`OwnedSnapshot`] closes it.
    is_lent: bool,
}

/// The bytes of the pool as a [`Snapshot`] sees them: the root, and the objects to which it leads. Bitmaps and
/// headers, which say where space is free, are as they are now.
#[derive(Debug)]
pub struct SnapshotView<'s> {
    memory: &'s Readable,
    snapshots: &'s Snapshots,
    number: u64,
}

/// Open snapshots, and the memory that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotStats {
    /// Number of open snapshots.
    pub open: usize,
    /// Private memory of before-images in bytes.
    pub memory: u64,
    /// Bytes of the pool that were freed, and wait for snapshots alone. Small blocks count once their thread shares them.
    pub space: u64,
}

impl<M: Medium> Heap<M> {
    /// Opens a snapshot of the heap: all transactions that are durable, as those of [`run`](Heap::run) are that have
    /// returned, and none that begins to commit later. Those of [`run_later`](Heap::run_later) belong to it once they are
    /// [durable](Heap::make_durable).
    ///
    /// # Errors
    /// [`HeapError::InTransaction`] inside of a transaction on this heap, whose changes it would not see.
    /// [`HeapError::Fault`] if a transaction that waits for its sync replaces words that are lost. [`HeapError::Poisoned`].
    pub fn snapshot(&self) -> Result<Snapshot<'_, M>, HeapError> {
        if self.in_transaction() {
            return Err(HeapError::InTransaction);
        }
        let mut list = self.lock_open_snapshots();
        let scope = FaultScope::open();
        let memory = scope.memory(self.memory());
        let open = |number, waiting: &WaitingRecords<'_>| {
            if !self.is_read_only() {
                // After a fault a transaction may be written back in part.
                self.log().check_not_failed()?;
            }
            // ORDER: kept before transactions see the snapshot: an image that one of them makes is that of a later change.
            if !bugs::SNAPSHOT_WITHOUT_WAITING_RECORDS.is_active() {
                self.keep_waiting(memory, number, waiting);
            }
            if let Some(fault) = scope.fault() {
                list.drop_unneeded();
                return Err(fault.into());
            }
            Ok::<_, HeapError>(list.add(number))
        };
        let opened = self.log().between_write_backs(open);
        // The error reports the fault.
        let _ = scope.close();
        let (key, open) = opened?;
        Ok(Snapshot { heap: self, key, open, is_lent: false })
    }

    /// Keeps the words that waiting records will replace, for the snapshot `number`, which is about to be opened.
    fn keep_waiting(&self, memory: &Readable, number: u64, waiting: &WaitingRecords<'_>) {
        let load = |at| memory.load8(at);
        for (sequence, at, end) in waiting.replaced() {
            self.snapshots().images.keep(&load, at, end, sequence, &|| Some(number));
        }
    }

    /// Limits the private memory that transactions take for open snapshots to `bytes`; 256 MiB unless set. At the limit
    /// the oldest snapshot ends.
    pub fn set_snapshot_memory_max(&self, bytes: u64) {
        self.snapshots().set_memory_max(bytes);
    }

    /// Returns the number of open snapshots, and the memory that they keep back.
    pub fn snapshot_stats(&self) -> SnapshotStats {
        let list = self.lock_open_snapshots();
        let space = list.held_epochs().map_or(0, |epochs| self.shared().limbo().held_in(epochs));
        SnapshotStats { open: list.len(), memory: self.snapshots().images.bytes(), space }
    }

    pub(crate) fn snapshots(&self) -> &Snapshots {
        self.shared().snapshots()
    }

    fn lock_open_snapshots(&self) -> OpenList<'_> {
        self.shared().open_snapshots(self.medium())
    }

    /// Ends the oldest snapshots until the images of the others take less memory than they may, unless another thread is
    /// about to. The caller holds no lane and no lock.
    #[inline]
    pub(crate) fn limit_snapshots(&self) {
        if self.snapshots().newest().is_some() && self.snapshots().exceeds_memory() {
            self.end_snapshots();
        }
    }

    #[cold]
    fn end_snapshots(&self) {
        let list = self.snapshots().try_lock(self.shared().readers());
        if let Some(mut list) = list.filter(|_| self.snapshots().exceeds_memory()) {
            list.limit_memory();
        }
    }
}

impl<M: Medium> Snapshot<'_, M> {
    /// Calls `read` with the bytes of the pool as the snapshot sees them.
    ///
    /// # Errors
    /// [`HeapError::SnapshotEnded`]: the result of `read` is dropped. [`HeapError::Fault`]; the error of `read`.
    pub fn try_reading<R, E: From<HeapError>>(
        &self,
        read: impl FnOnce(&SnapshotView<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        let scope = FaultScope::open();
        let (snapshots, number) = (self.heap.snapshots(), self.open.number);
        let memory = scope.memory(self.heap.memory());
        let result = read(&SnapshotView { memory, snapshots, number });
        let faults = scope.close();
        // ORDER: the flag is loaded after all loads of `read`. If one of them saw that what the snapshot kept is dropped, or
        // its space used again, the flag is seen, too.
        fence(Ordering::Acquire);
        if self.open.is_ended.load(Ordering::Relaxed) {
            return Err(HeapError::SnapshotEnded.into());
        }
        faults.map_err(HeapError::from)?;
        result
    }

    /// Returns the heap.
    pub fn heap(&self) -> &Heap<M> {
        self.heap
    }

    /// Returns the offset of the root object; [`PoolOffset::NULL`] if there was none.
    ///
    /// # Errors
    /// [`HeapError::Corrupt`] when the word that holds the offset is damaged; those of
    /// [`try_reading`](Snapshot::try_reading).
    pub fn root(&self) -> Result<PoolOffset, HeapError> {
        let at = self.heap.space().root_at();
        self.try_reading(|view| {
            decode_root(view.load8(at))
                .ok_or(HeapError::Corrupt { what: "the word that says where the root is", at })
        })
    }
}

impl<M: Medium> fmt::Debug for Snapshot<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("open", &self.open).finish_non_exhaustive()
    }
}

impl<M: Medium> Drop for Snapshot<'_, M> {
    fn drop(&mut self) {
        if !self.is_lent {
            self.heap.lock_open_snapshots().remove(self.key);
        }
    }
}

impl SnapshotView<'_> {
    /// Returns the aligned word at `at`.
    #[inline]
    pub fn load8(&self, at: PoolOffset) -> u64 {
        self.snapshots.images.load8(self.memory, at, self.number)
    }

    /// Loads the words from `at` on, each as [`load8`](SnapshotView::load8) does.
    #[inline]
    pub fn load_words(&self, at: PoolOffset, words: &mut [u64]) {
        self.snapshots.images.load_words(self.memory, at, words, self.number);
    }

    /// Copies the bytes at `at` to `into`.
    pub fn read(&self, at: PoolOffset, into: &mut [u8]) {
        self.snapshots.images.read(self.memory, at, into, self.number);
    }

    /// Returns the bytes of the pool as they are now. Its scope takes the faults.
    pub fn memory(&self) -> &Readable {
        self.memory
    }
}

/// The part of a commit that keeps words for snapshots.
pub(crate) struct KeepReplaced<'a, M: Medium> {
    heap: &'a Heap<M>,
    memory: &'a Readable,
    /// The space of the transaction.
    space: &'a Allocations,
}

impl<'a, M: Medium> KeepReplaced<'a, M> {
    #[inline]
    pub(crate) fn new(heap: &'a Heap<M>, memory: &'a Readable, space: &'a Allocations) -> Self {
        KeepReplaced { heap, memory, space }
    }

    #[inline]
    pub(crate) fn wants_entries(&self) -> bool {
        self.heap.snapshots().newest().is_some()
    }

    /// Keeps the words that the entries of the record `sequence` replace, as they are now.
    pub(crate) fn keep(&self, sequence: u64, entries: &[u64]) {
        let snapshots = self.heap.snapshots();
        // A snapshot that is opened meanwhile has the words already, or sees this transaction.
        let newest = || snapshots.newest();
        let pending = self.heap.pending();
        let load = |at| match pending {
            None => self.memory.load8(at),
            Some(pending) => pending.load8(self.memory, at).0,
        };
        for (at, end) in self.replaced(entries) {
            snapshots.images.keep(&load, at, end, sequence, &newest);
        }
    }

    /// Returns the ranges of older content that the entries replace. New objects need no images.
    pub(crate) fn replaced(&self, entries: &[u64]) -> impl Iterator<Item = (PoolOffset, PoolOffset)> {
        replaced(entries).filter(|(at, end)| !self.space.is_new(*at, *end))
    }
}

/// Returns the ranges of content that the entries replace.
fn replaced(entries: &[u64]) -> impl Iterator<Item = (PoolOffset, PoolOffset)> {
    Entries::new(entries).map_while(Result::ok).filter_map(|entry| match entry {
        Entry::Words { at, words } => Some((at, at.plus(words.len() as u64 * WORD))),
        Entry::Bytes { at, len, .. } | Entry::Zero { at, len } => Some((at, at.plus(len))),
        // Bits of bitmaps are no content. The others are of new objects, or lead to further entries.
        Entry::SetBits { .. } | Entry::ClearBits { .. } | Entry::Payload { .. } | Entry::Continue { .. } => {
            None
        }
        Entry::Cover(_) => unreachable!("the heap covers no memory"),
    })
}
