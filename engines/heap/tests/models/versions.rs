//! A lock is held by one at a time, and can't be taken if what it guards changed since its version was read.

use crate::explore;
use crate::locks::{LockTable, Tag, Version};
use lode_layout::PoolOffset;
use lode_pmem::sync::fence_after_exchange;
use loom::cell::Cell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
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
        while !self.locks.take(stripe, Tag::of(AT), self.locks.version(stripe)) {
            thread::yield_now();
        }
        let count = self.count.get() + 1;
        self.count.set(count);
        for word in &self.words {
            // As write-backs do.
            word.store(count, Ordering::Release);
        }
        self.locks.release_changed(stripe, count);
    }

    /// Reads both words without the lock; they belong together if the lock can then be taken unchanged.
    fn read(&self) {
        let stripe = self.locks.stripe(AT);
        let version = self.locks.version(stripe);
        let [first, second] = self.words.each_ref().map(|word| word.load(Ordering::Acquire));
        if self.locks.take(stripe, Tag::of(AT), version) {
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

/// Two words under one lock, which is handed on before they are written back.
struct HandedOn {
    locks: LockTable,
    words: [AtomicU64; 2],
    /// The number of the last transaction that handed the lock on, which is also the words' value.
    appended: AtomicU64,
}

impl HandedOn {
    /// Takes the lock, pending or not, and hands it on.
    fn change(&self) {
        let stripe = self.locks.stripe(AT);
        while !self.locks.take_pending(stripe, Tag::of(AT), self.locks.version(stripe)) {
            thread::yield_now();
        }
        let number = self.appended.load(Ordering::Relaxed) + 1;
        self.appended.store(number, Ordering::Release);
        self.locks.hand_on(stripe, number);
    }

    /// Writes the words of transaction `number` back, and then opens the lock if no later one has it.
    fn write_back(&self, number: u64) {
        while self.appended.load(Ordering::Acquire) < number {
            thread::yield_now();
        }
        self.words.iter().for_each(|word| word.store(number, Ordering::Release));
        self.locks.settle(self.locks.stripe(AT), number);
    }

    /// Reads both words in memory.
    fn read(&self) {
        let stripe = self.locks.stripe(AT);
        let version = self.locks.version(stripe);
        let [first, second] = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if !version.is_held() && self.locks.version(stripe) == version {
            assert_eq!([first, second], [version.number(); 2], "the words are not those of the version");
        }
    }
}

/// A reader of memory takes no word for that of an open lock while a transaction waits for its write-back, whichever of
/// them is written back meanwhile.
#[test]
fn handed_on_lock_is_not_open() {
    explore(2, || {
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        let shared = Arc::new(HandedOn { locks: LockTable::new(), words, appended: AtomicU64::new(0) });
        let (first, second) = (Arc::clone(&shared), Arc::clone(&shared));
        let first = thread::spawn(move || {
            first.change();
            first.write_back(1);
            first.write_back(2);
        });
        let second = thread::spawn(move || second.change());
        thread::yield_now();
        shared.read();
        first.join().unwrap();
        second.join().unwrap();
        // The flag of the last one may stay if the other thread set it late; a reader then looks at the number.
        let version = shared.locks.version(shared.locks.stripe(AT));
        assert_eq!(version.number(), 2);
    });
}

/// Words under locks of their own, and the number of the last commit.
struct Words {
    locks: LockTable,
    at: [PoolOffset; 2],
    words: [AtomicU64; 2],
    clock: AtomicU64,
}

impl Words {
    fn new() -> Arc<Words> {
        let locks = LockTable::new();
        let second = (1..).map(|number| PoolOffset::new(AT.get() + 16 * number));
        let second = second.clone().find(|at| locks.stripe(*at) != locks.stripe(AT)).unwrap();
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        Arc::new(Words { locks, at: [AT, second], words, clock: AtomicU64::new(0) })
    }

    fn lock(&self, index: usize) {
        let stripe = self.locks.stripe(self.at[index]);
        while !self.locks.take(stripe, Tag::of(self.at[index]), self.locks.version(stripe)) {
            thread::yield_now();
        }
    }

    /// Changes both words, as a transaction does.
    fn change_both(&self) {
        (0..2).for_each(|index| self.lock(index));
        // As the log draws the number of a record.
        let number = self.clock.fetch_add(1, Ordering::Release) + 1;
        self.words.iter().for_each(|word| word.store(number, Ordering::Release));
        self.at.iter().for_each(|at| self.locks.release_changed(self.locks.stripe(*at), number));
    }

    /// Reads both words by the rules of `read_set`; `None` if the closure would start again.
    fn read_both(&self) -> Option<[u64; 2]> {
        let (mut snapshot, mut noted, mut found) = (0, Vec::new(), [0; 2]);
        for (index, at) in self.at.iter().enumerate() {
            let stripe = self.locks.stripe(*at);
            let version = self.locks.version(stripe);
            if version.is_held() {
                return None;
            }
            found[index] = self.words[index].load(Ordering::Acquire);
            fence(Ordering::Acquire);
            if self.locks.version(stripe) != version {
                return None;
            }
            if version.number() > snapshot {
                snapshot = self.clock.load(Ordering::Acquire);
                if noted.iter().any(|(stripe, version)| self.locks.version(*stripe) != *version) {
                    return None;
                }
            }
            noted.push((stripe, version));
        }
        Some(found)
    }
}

/// A transaction that has read one word sees the other one as it was at the same moment, or starts again.
#[test]
fn reads_belong_to_one_snapshot() {
    explore(3, || {
        let words = Words::new();
        let other = Arc::clone(&words);
        let other = thread::spawn(move || {
            other.change_both();
            other.change_both();
        });
        if let Some([first, second]) = words.read_both() {
            assert_eq!(first, second, "words of two moments");
        }
        other.join().unwrap();
    });
}

/// Of two transactions, each of which changes what the other one has read, one sees the other's lock.
#[test]
fn write_skew_is_seen() {
    explore(3, || {
        let words = Words::new();
        let commit = |words: &Words, mine: usize| {
            words.lock(mine);
            fence_after_exchange();
            let theirs = words.locks.stripe(words.at[1 - mine]);
            words.locks.version(theirs) == Version::of_number(0)
        };
        let other = Arc::clone(&words);
        let other = thread::spawn(move || commit(&other, 1));
        let mine = commit(&words, 0);
        assert!(!(mine && other.join().unwrap()), "both transactions commit");
    });
}
