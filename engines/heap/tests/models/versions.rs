//! A lock is held by one at a time, and can't be taken if what it guards changed since its version was read.

use crate::explore;
use crate::locks::LockTable;
use lode_layout::PoolOffset;
use loom::cell::Cell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const AT: PoolOffset = PoolOffset::new(64);

/// Two words under one lock, and a count that only its holder may touch.
struct Shared {
    locks: LockTable,
    words: [AtomicU64; 2],
    /// loom reports any access beside a change.
    count: Cell<u64>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        Arc::new(Shared { locks: LockTable::new(), words, count: Cell::new(0) })
    }

    /// Takes the lock, changes both words and the count.
    fn change(&self) {
        let stripe = self.locks.stripe(AT);
        while !self.locks.take(stripe, self.locks.version(stripe)) {
            thread::yield_now();
        }
        let count = self.count.get() + 1;
        self.count.set(count);
        for word in &self.words {
            // As write-backs do.
            word.store(count, Ordering::Release);
        }
        self.locks.release(stripe);
    }

    /// Reads both words without the lock; they belong together if the lock can then be taken unchanged.
    fn read(&self) {
        let stripe = self.locks.stripe(AT);
        let version = self.locks.version(stripe);
        let [first, second] = self.words.each_ref().map(|word| word.load(Ordering::Acquire));
        if self.locks.take(stripe, version) {
            assert_eq!(first, second, "the words were read across a change");
            assert_eq!(first, self.count.get(), "the words are older than the lock");
            self.locks.release(stripe);
        }
    }
}

#[test]
fn lock_is_mutually_exclusive() {
    explore(3, || {
        let shared = Shared::new();
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || other.change());
        shared.change();
        other.join().unwrap();
        assert_eq!(shared.count.get(), 2);
    });
}

#[test]
fn unchanged_version_validates_read() {
    explore(3, || {
        let shared = Shared::new();
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || {
            other.change();
            other.change();
        });
        shared.read();
        other.join().unwrap();
    });
}
