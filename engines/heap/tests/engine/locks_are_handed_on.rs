//! At durability commit the locks of a transaction that waits for its sync go to the next one, with its words.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::{Heap, HeapError};
use lode_layout::{CHUNK, PoolOffset};
use lode_testing::gated_log::GatedLog;
use lode_testing::heap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const LEN: u64 = 4 << 20;

type TestHeap = Heap<Arc<GatedLog>>;

/// Returns a heap with an open gate, and the offset of a counter in it.
fn gated() -> (TestHeap, PoolOffset) {
    let heap = heap::create(Arc::new(GatedLog::new(LEN)));
    let counter = heap.run(|tx| tx.alloc_zeroed(64, 64, 1)).unwrap();
    (heap, counter)
}

/// Adds one to the counter.
fn increment(heap: &TestHeap, counter: PoolOffset) -> Result<(), HeapError> {
    heap.run(|tx| {
        tx.lock(counter)?;
        tx.store8(counter, tx.load8(counter) + 1);
        Ok(())
    })
}

fn value(heap: &TestHeap, counter: PoolOffset) -> u64 {
    heap.run(|tx| tx.read8(counter)).unwrap()
}

/// Post-mortem. A long transaction that found no space for its log opened the lock that it had taken while pending. The
/// next one read memory, without the word that waited for its sync, and its commit replaced an acknowledged one.
#[test]
fn commit_without_space_keeps_pending_words() {
    let (heap, counter) = gated();
    let large = heap.run(|tx| tx.alloc_zeroed(LEN / 8, 64, 2)).unwrap();
    let (is_long, is_full) = (AtomicBool::new(false), AtomicBool::new(false));
    let wait_for = |flag: &AtomicBool| {
        while !flag.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    };
    heap.medium().shut(true);
    thread::scope(|scope| {
        scope.spawn(|| increment(&heap, counter).unwrap());
        heap.medium().await_write();
        // Changes more than a record holds. Another transaction takes the chunks that its entries need.
        let fails = scope.spawn(|| {
            heap.run(|tx| {
                tx.lock(counter)?;
                tx.store8(counter, tx.load8(counter) + 100);
                tx.store_words(large, &vec![7; (LEN / 8 / 8) as usize]);
                is_long.store(true, Ordering::Relaxed);
                wait_for(&is_full);
                Ok::<_, HeapError>(())
            })
        });
        wait_for(&is_long);
        scope.spawn(|| {
            heap.run(|tx| {
                while tx.alloc(CHUNK / 2, 64, 3).is_ok() {}
                is_full.store(true, Ordering::Relaxed);
                Ok::<_, HeapError>(())
            })
            .unwrap();
        });
        wait_for(&is_full);
        let adds = scope.spawn(|| increment(&heap, counter));
        thread::sleep(Duration::from_millis(20));
        heap.medium().shut(false);
        adds.join().unwrap().unwrap();
        let failed = fails.join().unwrap();
        assert!(
            matches!(failed, Err(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. })),
            "{failed:?}"
        );
    });
    assert_eq!(value(&heap, counter), 2);
}

#[test]
fn readers_of_pending_words_see_the_durable_ones() {
    let (heap, counter) = gated();
    heap.medium().shut(true);
    thread::scope(|scope| {
        scope.spawn(|| increment(&heap, counter).unwrap());
        heap.medium().await_write();
        let mark = heap.begin_read(counter);
        let word = heap.memory().reading(|memory| memory.load8(counter)).unwrap();
        let is_unchanged = mark.is_some_and(|mark| heap.is_unchanged(counter, mark));
        heap.medium().shut(false);
        assert!(is_unchanged, "a reader waits for a sync");
        assert_eq!(word, 0);
        while value(&heap, counter) == 0 {}
        assert!(mark.is_none_or(|mark| !heap.is_unchanged(counter, mark)), "the word was written back");
    });
}

/// Post-mortem. A begun transaction waited for a lock that was never open: each transaction handed it on to the next.
#[test]
fn begun_transaction_gets_lock_that_is_always_pending() {
    const STEPS: u64 = 5_000;
    const BEGUN: u64 = 5;
    let (heap, counter) = gated();
    heap.medium().slow_down();
    let (is_done, steps) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) && steps.load(Ordering::Relaxed) < STEPS {
                    increment(&heap, counter).unwrap();
                    steps.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..BEGUN {
            // A read takes no lock, unless the word is pending.
            let add = || {
                let begun = heap.begin()?;
                begun.step(|tx| {
                    let old = tx.read8(counter)?;
                    tx.lock(counter)?;
                    tx.store8(counter, old + 1);
                    Ok::<_, HeapError>(())
                })?;
                begun.commit()
            };
            while let Err(error) = add() {
                assert_eq!(error, HeapError::Conflict);
            }
        }
        assert!(steps.load(Ordering::Relaxed) < STEPS, "it waited for the others to end");
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(value(&heap, counter), steps.load(Ordering::Relaxed) + BEGUN);
}

/// Space that was reserved as a span becomes an object when its record is durable: others look at it in memory.
#[test]
fn published_span_keeps_locks() {
    let (heap, counter) = gated();
    let reserved = heap.reserve(40_000, 64, 2).unwrap();
    let is_taken = AtomicBool::new(false);
    heap.medium().shut(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            heap.run_with(reserved, |tx, reserved| {
                tx.lock(counter)?;
                tx.store8(counter, tx.publish(reserved)?.get());
                Ok::<_, HeapError>(())
            })
            .unwrap();
        });
        heap.medium().await_write();
        scope.spawn(|| {
            heap.run(|tx| {
                tx.lock(counter)?;
                is_taken.store(true, Ordering::Relaxed);
                tx.free(PoolOffset::new(tx.load8(counter)))
            })
            .unwrap();
        });
        thread::sleep(Duration::from_millis(20));
        let was_handed_on = is_taken.load(Ordering::Relaxed);
        heap.medium().shut(false);
        assert!(!was_handed_on, "the lock was handed on");
    });
}
