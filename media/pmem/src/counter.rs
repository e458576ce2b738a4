//! Counters that order nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that threads count up together. It orders no other access, so it serves to number things and to report
/// counts, not to publish data. In a build with `cfg(loom)` it stays the standard library's: loom has nothing to try in
/// it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Returns a counter that begins at `first`.
    pub const fn new(first: u64) -> Counter {
        Counter(AtomicU64::new(first))
    }

    /// Adds `count`; returns the number before.
    #[inline]
    pub fn add(&self, count: u64) -> u64 {
        // ORDER: none: a count orders nothing. Each addition sees a number of its own.
        self.0.fetch_add(count, Ordering::Relaxed)
    }

    /// Returns the number. It is exact once the threads that count were joined.
    #[inline]
    pub fn get(&self) -> u64 {
        // ORDER: none: as in `add`.
        self.0.load(Ordering::Relaxed)
    }
}
