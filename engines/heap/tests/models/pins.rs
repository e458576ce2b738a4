//! A block is not used again while a pinned reader can hold it.

use crate::explore;
use crate::readers::Readers;
use loom::cell::Cell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// A block that a word leads to.
struct Shared {
    readers: Readers,
    linked: AtomicBool,
    /// loom reports any access beside a change.
    block: Cell<u64>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        let readers = Readers::new();
        Arc::new(Shared { readers, linked: AtomicBool::new(true), block: Cell::new(1) })
    }

    fn read(&self) {
        let _pin = self.readers.pin();
        self.look();
    }

    /// Reads the block, if the word still leads to it.
    fn look(&self) {
        if self.linked.load(Ordering::Acquire) {
            assert_eq!(self.block.get(), 1, "the block was used again");
        }
    }

    /// Frees the block, and uses it again if no reader can hold it.
    fn reuse(&self) {
        self.linked.store(false, Ordering::Release);
        let epoch = self.readers.advance();
        if epoch < self.readers.oldest() {
            self.block.set(2);
        }
    }
}

#[test]
fn pinned_block_is_not_reused() {
    explore(3, || {
        let shared = Shared::new();
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || reader.read());
        shared.reuse();
        reader.join().unwrap();
    });
}

#[test]
fn repinned_thread_is_seen() {
    explore(3, || {
        let shared = Shared::new();
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            reader.read();
            reader.read();
        });
        shared.reuse();
        reader.join().unwrap();
    });
}

#[test]
fn two_readers_and_a_reclaimer() {
    explore(3, || {
        let shared = Shared::new();
        let readers = [Arc::clone(&shared), Arc::clone(&shared)];
        let readers = readers.map(|reader| thread::spawn(move || reader.read()));
        shared.reuse();
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

/// The slot shows the younger pin's epoch when the older pin is gone.
#[test]
fn nested_pin_outlives_first_pin() {
    explore(4, || {
        let shared = Shared::new();
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            let older = reader.readers.pin();
            let younger = reader.readers.pin();
            drop(older);
            reader.look();
            drop(younger);
        });
        shared.reuse();
        reader.join().unwrap();
    });
}

#[test]
fn first_pin_outlives_nested_pins() {
    explore(3, || {
        let shared = Shared::new();
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            let older = reader.readers.pin();
            let found = reader.linked.load(Ordering::Acquire);
            reader.read();
            if found {
                assert_eq!(reader.block.get(), 1, "the block was used again");
            }
            drop(older);
        });
        shared.reuse();
        reader.join().unwrap();
    });
}

/// As frees that all threads share are used again: by a thread that looked at the readers by itself, beside a reader
/// and a thread that frees, and perhaps pins after that.
fn look_beside_a_free(preemptions: usize, pins_again: bool) {
    explore(preemptions, move || {
        let shared = Shared::new();
        let limbo = Arc::new(Mutex::new(None));
        if pins_again {
            // Two slots have been used, the second one of which made the list longer.
            let _pin = shared.readers.pin();
            let other = Arc::clone(&shared);
            thread::spawn(move || drop(other.readers.pin())).join().unwrap();
        }
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || reader.read());
        let (freer, freed) = (Arc::clone(&shared), Arc::clone(&limbo));
        let freer = thread::spawn(move || {
            freer.linked.store(false, Ordering::Release);
            let epoch = freer.readers.advance();
            *freed.lock().unwrap() = Some(epoch);
            let _pin = pins_again.then(|| freer.readers.pin());
        });
        let oldest = shared.readers.oldest();
        let epoch: Option<u64> = *limbo.lock().unwrap();
        if epoch.is_some_and(|epoch| epoch < oldest) {
            shared.block.set(2);
        }
        reader.join().unwrap();
        freer.join().unwrap();
    });
}

#[test]
fn oldest_epoch_excludes_later_frees() {
    look_beside_a_free(3, false);
}

#[test]
fn younger_reader_excludes_later_frees() {
    look_beside_a_free(4, true);
}
