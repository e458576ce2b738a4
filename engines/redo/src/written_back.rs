//! The progress of the write-backs of a shared ring.

use lode_pmem::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// The last record that is durable and written back, as all before it are.
#[derive(Debug)]
pub struct WrittenBack {
    last: AtomicU64,
    /// The least number of a record whose write-back met lost memory, or `u64::MAX`.
    faulted: AtomicU64,
    /// True if no record after the last one will be written back: the log has failed.
    is_over: AtomicBool,
    /// Odd while a batch is being written back. Memory changes at no other time.
    phase: AtomicU64,
}

/// A time in which no batch was being written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase(u64);

impl WrittenBack {
    /// Makes the progress of a ring whose next record follows the record `last`.
    pub fn new(last: u64) -> WrittenBack {
        let [last, faulted, phase] = [last, u64::MAX, 0].map(AtomicU64::new);
        WrittenBack { last, faulted, is_over: AtomicBool::new(false), phase }
    }

    /// Returns the sequence number of the last record that is durable and written back.
    #[inline]
    pub fn last(&self) -> u64 {
        // ORDER: acquires the write-backs up to it.
        self.last.load(Ordering::Acquire)
    }

    /// Returns true if all records up to `sequence` are durable and written back, and none of them met lost memory.
    #[inline]
    pub fn is_whole(&self, sequence: u64) -> bool {
        // ORDER: none: noted before `last` counts the record, which is acquired.
        self.last() >= sequence && self.faulted.load(Ordering::Relaxed) > sequence
    }

    /// Returns true if no write-back of the record `sequence` is to come.
    #[inline]
    pub fn is_settled(&self, sequence: u64) -> bool {
        // ORDER: acquires the last write-backs.
        self.last() >= sequence || self.is_over.load(Ordering::Acquire)
    }

    /// Returns the present phase; `None` while a batch is being written back.
    #[inline]
    pub fn phase(&self) -> Option<Phase> {
        // ORDER: acquires the last write-back; loads from memory come after.
        let phase = self.phase.load(Ordering::Acquire);
        phase.is_multiple_of(2).then_some(Phase(phase))
    }

    /// Returns true if nothing was written back since `phase` began. Then loads since then found memory unchanged.
    #[inline]
    pub fn is_in(&self, phase: Phase) -> bool {
        // ORDER: the loads come before that of the phase. A write-back stores after it has made the phase odd.
        fence(Ordering::Acquire);
        // ORDER: as above.
        self.phase.load(Ordering::Relaxed) == phase.0
    }

    /// Begins a write-back, by the one thread that writes back. It ends when the result is dropped.
    pub(crate) fn begin_write_back(&self) -> WritingBack<'_> {
        // ORDER: none: one thread at a time writes back.
        self.phase.store(self.phase.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // ORDER: the phase is odd before the first store: who sees such a store sees that.
        fence(Ordering::Release);
        WritingBack(self)
    }

    /// Notes that the write-back of the record `sequence` met lost memory, before it counts as written back.
    pub(crate) fn note_fault(&self, sequence: u64) {
        // ORDER: none: one thread at a time writes back, and `advance` releases it.
        let least = self.faulted.load(Ordering::Relaxed).min(sequence);
        // ORDER: as above.
        self.faulted.store(least, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, last: u64) {
        // ORDER: releases the write-backs up to it.
        self.last.store(last, Ordering::Release);
    }

    /// Notes that no further record is written back.
    pub(crate) fn end(&self) {
        // ORDER: releases the last write-backs.
        self.is_over.store(true, Ordering::Release);
    }
}

/// A batch that is being written back.
#[must_use = "the write-back ends when this is dropped"]
pub(crate) struct WritingBack<'a>(&'a WrittenBack);

impl Drop for WritingBack<'_> {
    fn drop(&mut self) {
        let phase = &self.0.phase;
        // ORDER: releases the write-backs.
        phase.store(phase.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}
