//! The progress of the write-backs of a shared ring.

use lode_pmem::sync::{AtomicBool, AtomicU64, Ordering};

/// The last record that is durable and written back, as all before it are.
#[derive(Debug)]
pub struct WrittenBack {
    last: AtomicU64,
    /// True if no record after the last one will be written back: the log has failed.
    is_over: AtomicBool,
}

impl WrittenBack {
    pub(crate) fn new(last: u64) -> WrittenBack {
        WrittenBack { last: AtomicU64::new(last), is_over: AtomicBool::new(false) }
    }

    /// Returns the sequence number of the last record that is durable and written back.
    #[inline]
    pub fn last(&self) -> u64 {
        // ORDER: acquires the write-backs up to it.
        self.last.load(Ordering::Acquire)
    }

    /// Returns true if no write-back of the record `sequence` is to come.
    #[inline]
    pub fn is_settled(&self, sequence: u64) -> bool {
        // ORDER: acquires the last write-backs.
        self.last() >= sequence || self.is_over.load(Ordering::Acquire)
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
