//! A medium that counts its operations.

use crate::cpu::lines_of;
use crate::{Counter, Durability, Medium, SyncError};
use lode_layout::PoolOffset;
use std::ops::Sub;
use std::sync::atomic::{AtomicBool, Ordering};

/// Counts of a medium's operations. The difference of two counts covers the time between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Drains, including those inside of log writes.
    pub drains: u64,
    /// Drains that had stores to wait for. Other drains cost next to nothing.
    pub drains_waiting: u64,
    /// Cache lines flushed.
    pub lines_flushed: u64,
    /// Cache lines touched by copies past the cache, including those of log writes.
    pub lines_copied: u64,
    /// Bytes stored through the cache.
    pub bytes_stored: u64,
    /// Bytes copied past the cache, including those of log writes.
    pub bytes_copied: u64,
    /// Log writes.
    pub log_writes: u64,
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            drains: self.drains - earlier.drains,
            drains_waiting: self.drains_waiting - earlier.drains_waiting,
            lines_flushed: self.lines_flushed - earlier.lines_flushed,
            lines_copied: self.lines_copied - earlier.lines_copied,
            bytes_stored: self.bytes_stored - earlier.bytes_stored,
            bytes_copied: self.bytes_copied - earlier.bytes_copied,
            log_writes: self.log_writes - earlier.log_writes,
        }
    }
}

/// Number of threads that are counted separately.
const THREADS: usize = 64;

/// A medium that counts its operations. A medium that is not wrapped in this type has no extra cost.
#[derive(Debug)]
pub struct Counted<M> {
    medium: M,
    drains: Counter,
    drains_waiting: Counter,
    lines_flushed: Counter,
    lines_copied: Counter,
    bytes_stored: Counter,
    bytes_copied: Counter,
    log_writes: Counter,
    /// For each thread: true if its next drain has stores to wait for.
    waiting: [AtomicBool; THREADS],
}

impl<M: Medium> Counted<M> {
    /// Wraps `medium`, with all counts at zero.
    pub fn new(medium: M) -> Counted<M> {
        Counted {
            medium,
            drains: Counter::default(),
            drains_waiting: Counter::default(),
            lines_flushed: Counter::default(),
            lines_copied: Counter::default(),
            bytes_stored: Counter::default(),
            bytes_copied: Counter::default(),
            log_writes: Counter::default(),
            waiting: [const { AtomicBool::new(false) }; THREADS],
        }
    }

    /// Returns the counts so far, over all threads.
    pub fn counts(&self) -> Counts {
        Counts {
            drains: self.drains.get(),
            drains_waiting: self.drains_waiting.get(),
            lines_flushed: self.lines_flushed.get(),
            lines_copied: self.lines_copied.get(),
            bytes_stored: self.bytes_stored.get(),
            bytes_copied: self.bytes_copied.get(),
            log_writes: self.log_writes.get(),
        }
    }

    /// Returns the wrapped medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    fn stored(&self, len: usize) {
        self.bytes_stored.add(len as u64);
        // At durability `line` a drain does not wait for a store before its line is flushed.
        if self.medium.durability() != Durability::Line {
            self.wait();
        }
    }

    fn copied(&self, at: PoolOffset, len: usize) {
        self.bytes_copied.add(len as u64);
        self.lines_copied.add(lines_of(at.get(), len as u64).1);
        self.wait();
    }

    fn wait(&self) {
        // ORDER: none: the same thread reads it. A thread that shares its place may count one drain too many or too
        // few.
        self.waiting[place()].store(true, Ordering::Relaxed);
    }

    fn drained(&self) {
        self.drains.add(1);
        // ORDER: none: as in `wait`.
        if self.waiting[place()].swap(false, Ordering::Relaxed) {
            self.drains_waiting.add(1);
        }
    }
}

/// Returns the calling thread's place among those that are counted separately.
fn place() -> usize {
    static NEXT: Counter = Counter::new(0);
    thread_local! {
        static PLACE: usize = NEXT.add(1) as usize % THREADS;
    }
    PLACE.with(|place| *place)
}

impl<M: Medium> crate::Layer for Counted<M> {
    type Inner = M;

    #[inline]
    fn inner(&self) -> &M {
        &self.medium
    }
    fn store8(&self, at: PoolOffset, value: u64) {
        self.stored(size_of_val(&value));
        self.medium.store8(at, value);
    }
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.stored(bytes.len());
        self.medium.store(at, bytes);
    }
    fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.medium.compare_exchange8(at, current, new);
        if found.is_ok() {
            self.stored(size_of_val(&new));
        }
        found
    }
    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        self.copied(at, bytes.len());
        self.medium.copy(at, bytes);
    }
    fn flush(&self, at: PoolOffset, len: u64) {
        self.lines_flushed.add(lines_of(at.get(), len).1);
        self.wait();
        self.medium.flush(at, len);
    }
    fn drain(&self) -> Result<(), SyncError> {
        self.drained();
        // ORDER: the medium's own.
        self.medium.drain()
    }
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        self.log_writes.add(1);
        self.copied(at, bytes.len());
        self.drained();
        self.medium.log_write(at, bytes)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::Mapping;

    #[test]
    fn counts_each_call() {
        let mapping = Mapping::options().durability(Durability::Line).map_anonymous(4096).unwrap();
        let medium = Counted::new(mapping);
        let at = PoolOffset::new;
        medium.drain().unwrap();
        medium.store8(at(0), 1);
        medium.drain().unwrap();
        let idle = Counts { drains: 2, bytes_stored: 8, ..Counts::default() };
        assert_eq!(medium.counts(), idle);
        medium.flush(at(60), 8);
        medium.copy(at(120), &[1; 16]);
        medium.drain().unwrap();
        medium.log_write(at(256), &[2; 192]).unwrap();
        assert_eq!(medium.compare_exchange8(at(0), 9, 3), Err(1));
        assert_eq!(medium.compare_exchange8(at(0), 1, 3), Ok(1));
        let busy = Counts {
            drains: 2,
            drains_waiting: 2,
            lines_flushed: 2,
            lines_copied: 2 + 3,
            bytes_stored: 8,
            bytes_copied: 16 + 192,
            log_writes: 1,
        };
        assert_eq!(medium.counts() - idle, busy);
    }
}
