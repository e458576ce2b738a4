//! Transactions that return before their sync, at durability commit.
//!
//! ```text
//!   run_later   append the record -> pending words -> hand on all locks -> note the end -> return
//!   anyone      sync -> write back -> last = n
//!   anyone      take the noted ends up to n: retire freed space, remove pending words, open the locks
//! ```
//!
//! Such a transaction has no thread that waits for it, so its last steps wait here until its record is written back. The
//! next thread that commits so, or waits for one, does them. They come after the write-back: a reader outside of
//! transactions reaches what was freed until then.
//!
//! While records wait, all closures see pending words from their first attempt on. So a later transaction sees what
//! earlier ones have left, also when it follows an offset that a closure has returned.

use crate::alloc::block_set::BlockSet;
use crate::locks::Stripe;
use lode_pmem::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use lode_redo::{AppendedRecord, WrittenBack, bugs};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// Bytes of the log that may wait for their sync, unless another limit is set.
const WAITING_MAX: u64 = 1 << 20;

/// A place in the log: all transactions up to it, in the order in which they were committed.
///
/// [`Heap::run_later`](crate::Heap::run_later) returns that of its transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The sequence number of the last record.
    sequence: u64,
}

impl LogPosition {
    pub(crate) fn new(sequence: u64) -> LogPosition {
        LogPosition { sequence }
    }

    pub(crate) fn sequence(self) -> u64 {
        self.sequence
    }
}

/// Tells which transactions are durable, also when their heap is closed.
#[derive(Clone, Debug)]
pub struct Watch {
    /// `None` where all are durable when they return.
    written_back: Option<Arc<WrittenBack>>,
}

impl Watch {
    pub(crate) fn new(written_back: Option<Arc<WrittenBack>>) -> Watch {
        Watch { written_back }
    }

    /// Returns true if all transactions up to `position` are durable, and visible to readers outside of transactions. After
    /// a failed sync it stays false, and so it does if memory that one of them changes is lost.
    pub fn is_durable(&self, position: LogPosition) -> bool {
        let Some(written_back) = &self.written_back else { return true };
        if bugs::TICKET_BEFORE_SYNC.is_active() {
            return true;
        }
        if bugs::TICKET_AFTER_FAILED_SYNC.is_active() {
            return written_back.is_settled(position.sequence);
        }
        written_back.is_whole(position.sequence)
    }
}

/// The last steps of a transaction, left to do when its record is written back.
#[derive(Debug)]
pub(crate) struct NotedEnd {
    pub(crate) sequence: u64,
    /// The entries of its record.
    pub(crate) entries: Vec<u64>,
    /// The locks that it has handed on.
    pub(crate) handed: Vec<Stripe>,
    /// The space that it has freed, if any.
    pub(crate) freed: Option<BlockSet>,
}

/// The transactions of a heap that returned before their sync.
#[derive(Debug)]
pub(crate) struct LaterCommits {
    /// The greatest sequence number of one.
    last: AtomicU64,
    /// In the order of the log, but for threads that overtake each other.
    ends: Mutex<VecDeque<NotedEnd>>,
    /// Bytes of the log that waited when the last such transaction was committed.
    waiting: AtomicU64,
    waiting_max: AtomicU64,
}

impl LaterCommits {
    pub(crate) fn new() -> LaterCommits {
        let ends = Mutex::new(VecDeque::new());
        let [last, waiting, waiting_max] = [0, 0, WAITING_MAX].map(AtomicU64::new);
        LaterCommits { last, ends, waiting, waiting_max }
    }

    /// Notes that the transaction of the record is about to return.
    pub(crate) fn note(&self, record: &AppendedRecord) {
        // ORDER: none: a thread that has to see the transaction learns from its return.
        self.last.fetch_max(record.sequence, Ordering::Relaxed);
        // ORDER: none: a hint.
        self.waiting.store(record.waiting, Ordering::Relaxed);
    }

    /// Returns the greatest sequence number of a transaction that returned before its sync, or 0.
    pub(crate) fn last(&self) -> u64 {
        // ORDER: as above.
        self.last.load(Ordering::Relaxed)
    }

    /// Returns true if a transaction waits for its sync.
    pub(crate) fn are_waiting(&self, written_back: &WrittenBack) -> bool {
        !written_back.is_settled(self.last())
    }

    pub(crate) fn set_waiting_max(&self, bytes: u64) {
        // ORDER: none: as in `waiting_max`.
        self.waiting_max.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn waiting_max(&self) -> u64 {
        // ORDER: none: an old limit lasts a little longer.
        self.waiting_max.load(Ordering::Relaxed)
    }

    /// Returns true if more than half of the bytes wait that may.
    pub(crate) fn exceed_half_of_waiting_max(&self) -> bool {
        // ORDER: none: a hint.
        self.waiting.load(Ordering::Relaxed) > self.waiting_max() / 2
    }

    pub(crate) fn push(&self, end: NotedEnd) {
        self.lock().push_back(end);
    }

    /// Takes the next end of a transaction that is written back.
    pub(crate) fn pop(&self, written_back: &WrittenBack) -> Option<NotedEnd> {
        let mut ends = self.lock();
        let is_next = ends.front().is_some_and(|end| end.sequence <= written_back.last());
        is_next.then(|| ends.pop_front()).flatten()
    }

    /// Takes the freed space of the transactions that are not ended and for which `is_over` returns true, with their
    /// sequence numbers.
    pub(crate) fn take_freed(&self, is_over: impl Fn(u64) -> bool) -> Vec<(u64, BlockSet)> {
        let mut ends = self.lock();
        let over = ends.iter_mut().filter(|end| is_over(end.sequence));
        over.filter_map(|end| Some((end.sequence, end.freed.take()?))).collect()
    }

    /// Returns true if freed space waits for the last steps of a transaction.
    pub(crate) fn keep_freed(&self) -> bool {
        self.lock().iter().any(|end| end.freed.is_some())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<NotedEnd>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
