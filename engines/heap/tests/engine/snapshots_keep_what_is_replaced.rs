//! A snapshot keeps each word that a later transaction replaces, wherever it lies, and no transaction fails because of a
//! snapshot.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::{CreateOptions, Durability, Heap, HeapError, LayoutName, Pool, Snapshot};
use lode_layout::PoolOffset;
use lode_pmem::Mapping;
use lode_testing::{heap, memory};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{iter, mem, thread};

type Medium = Arc<Mapping>;
const TYPE: u64 = 1;

fn new_heap(len: u64) -> Heap<Medium> {
    heap::create(Arc::new(memory::persistent(len)))
}

fn alloc(heap: &Heap<Medium>, size: u64) -> PoolOffset {
    heap.run(|tx| tx.alloc_zeroed(size, 16, TYPE)).unwrap()
}

fn store(heap: &Heap<Medium>, at: PoolOffset, words: &[u64]) {
    let stored: Result<(), HeapError> = heap.run(|tx| {
        tx.lock(at)?;
        tx.store_words(at, words);
        Ok(())
    });
    stored.unwrap();
}

fn load(snapshot: &Snapshot<'_, Medium>, at: PoolOffset) -> u64 {
    snapshot.try_reading(|view| Ok::<_, HeapError>(view.load8(at))).unwrap()
}

#[test]
fn words_inside_of_huge_object() {
    let heap = new_heap(4 << 20);
    let object = alloc(&heap, 400_000);
    let snapshot = heap.snapshot().unwrap();
    let places: Vec<PoolOffset> = (0..24).map(|chunk| object.plus(chunk * 16_384 + 8)).collect();
    places.iter().for_each(|at| store(&heap, *at, &[7; 12]));
    assert!(places.iter().all(|at| load(&snapshot, at.plus(88)) == 0));
    let mut bytes = [1; 200];
    let read: Result<(), HeapError> = snapshot.try_reading(|view| {
        view.read(object.plus(5), &mut bytes);
        Ok(())
    });
    read.unwrap();
    assert_eq!(bytes, [0; 200]);
}

/// A transaction that came to the object before it was freed stores to it afterwards.
#[test]
fn words_of_object_that_was_freed_since() {
    let heap = new_heap(1 << 20);
    let object = alloc(&heap, 200);
    let snapshot = heap.snapshot().unwrap();
    let _pin = heap.pin();
    heap.run(|tx| tx.free(object)).unwrap();
    store(&heap, object, &[7; 8]);
    assert_eq!(load(&snapshot, object.plus(56)), 0);
}

#[test]
fn new_objects_are_not_kept() {
    let heap = new_heap(4 << 20);
    let _snapshot = heap.snapshot().unwrap();
    let bytes = || heap.snapshot_stats().memory;
    alloc(&heap, 300_000);
    heap.run(|tx| tx.alloc_with(&[5; 100], 16, TYPE)).unwrap();
    // Some words of tables.
    let few = bytes();
    assert!(few < 4 << 10, "{few} bytes");
    let old = alloc(&heap, 300_000);
    let _later = heap.snapshot().unwrap();
    store(&heap, old, &[7; 1_000]);
    assert!(bytes() > few + 8_000);
}

/// Content of new objects in space that was used before, one after another and many at once.
#[test]
fn new_objects_in_old_space_are_not_kept() {
    let heap = new_heap(4 << 20);
    let many = || {
        let made: Result<Vec<PoolOffset>, HeapError> =
            heap.run(|tx| (0..1_000).map(|_| tx.alloc_with(&[7; 256], 16, TYPE)).collect());
        made.unwrap()
    };
    let freed: Result<(), HeapError> = {
        let objects = many();
        heap.run(|tx| objects.iter().try_for_each(|object| tx.free(*object)))
    };
    freed.unwrap();
    let snapshot = heap.snapshot().unwrap();
    let objects = many();
    assert!(heap.snapshot_stats().memory < 32 << 10, "{:?}", heap.snapshot_stats());
    drop(snapshot);
    let _snapshot = heap.snapshot().unwrap();
    objects.iter().for_each(|object| store(&heap, *object, &[1; 32]));
    assert!(heap.snapshot_stats().memory > 256_000);
}

/// Snapshots are not ended for space that a pin holds, too.
#[test]
fn older_reader_ends_no_snapshot() {
    let heap = new_heap(4 << 20);
    let object = alloc(&heap, 1_700_000);
    let pin = heap.pin();
    let snapshot = heap.snapshot().unwrap();
    heap.run(|tx| tx.free(object)).unwrap();
    let next = || heap.run(|tx| tx.alloc(2_500_000, 16, TYPE));
    assert!(matches!(next(), Err(HeapError::OutOfSpace { .. })));
    assert_eq!(load(&snapshot, object), 0);
    assert_eq!(heap.snapshot_stats().space, 0);
    drop(pin);
    assert!(heap.snapshot_stats().space >= 1_700_000);
    next().unwrap();
    let ended: Result<u64, HeapError> = snapshot.try_reading(|view| Ok(view.load8(object)));
    assert_eq!(ended, Err(HeapError::SnapshotEnded));
}

/// The oldest snapshots end until the others need no more memory than they may, and the newest one stays right.
#[test]
fn oldest_snapshots_end_at_the_limit() {
    let heap = new_heap(4 << 20);
    let object = alloc(&heap, 200_000);
    let words = |value| store(&heap, object, &vec![value; 20_000]);
    let snapshots: Vec<_> = (0..20)
        .map(|value| {
            words(value);
            heap.snapshot().unwrap()
        })
        .collect();
    words(20);
    assert_eq!(heap.snapshot_stats().open, 20);
    let all = heap.snapshot_stats().memory;
    heap.set_snapshot_memory_max(all / 4);
    store(&heap, object, &[21]);
    let stats = heap.snapshot_stats();
    assert!(stats.memory <= all / 4 && stats.open > 1, "{stats:?} of {all}");
    for (value, snapshot) in snapshots.iter().enumerate() {
        let word = snapshot.try_reading(|view| Ok(view.load8(object.plus(8 * 19_999))));
        let has_ended = value < 20 - stats.open;
        assert_eq!(word, if has_ended { Err(HeapError::SnapshotEnded) } else { Ok(value as u64) });
    }
    drop(snapshots);
    assert_eq!(heap.snapshot_stats().memory, 0);
}

/// What short snapshots kept is dropped beside an old one that is still open.
#[test]
fn short_snapshots_beside_an_old_one() {
    let heap = new_heap(4 << 20);
    let object = alloc(&heap, 64);
    let old = heap.snapshot().unwrap();
    let mut most = 0;
    for round in 1..40_000 {
        let short = heap.snapshot().unwrap();
        store(&heap, object, &[round]);
        drop(short);
        most = most.max(heap.snapshot_stats().memory);
    }
    assert!(most < 2 << 20, "{most} bytes for one word");
    assert_eq!(load(&old, object), 0);
    heap.set_snapshot_memory_max(64 << 10);
    store(&heap, object, &[0]);
    assert_eq!(load(&old, object), 0);
}

/// A request that no end of a snapshot could fulfil ends none.
#[test]
fn impossible_request_ends_no_snapshot() {
    let heap = new_heap(4 << 20);
    let object = alloc(&heap, 100);
    let snapshot = heap.snapshot().unwrap();
    let refused = |size| matches!(heap.run(|tx| tx.alloc(size, 16, TYPE)), Err(HeapError::OutOfSpace { .. }));
    assert!(refused(8 << 20));
    assert_eq!(load(&snapshot, object), 0);
    heap.run(|tx| tx.free(object)).unwrap();
    assert!(refused(8 << 20));
    assert_eq!(load(&snapshot, object), 0);
}

/// One object after another fills the pool. Each needs the space of the one before, which a snapshot may hold.
#[test]
fn writer_finds_space_beside_snapshots() {
    let heap = new_heap(4 << 20);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let snapshot = heap.snapshot().unwrap();
                    thread::yield_now();
                    drop(snapshot);
                }
            });
        }
        let mut old = None;
        let replaced: Result<(), HeapError> = (0..1_000).try_for_each(|_| {
            old = Some(heap.run(|tx| {
                if let Some(old) = old {
                    tx.free(old)?;
                }
                tx.alloc(1_700_000, 16, TYPE)
            })?);
            Ok(())
        });
        is_done.store(true, Ordering::Relaxed);
        replaced.unwrap();
    });
}

/// Snapshots hold all lanes, also those that come into use when the log moves.
#[test]
fn snapshots_beside_log_that_moves() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..6 {
        let options = CreateOptions {
            size_max: Some(1 << 30),
            durability: Some(Durability::None),
            ..CreateOptions::new(256 << 10, LayoutName::new("moves").unwrap())
        };
        let pool = Pool::create(&folder.path().join(round.to_string()), &options).unwrap();
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    drop(pool.heap().snapshot().unwrap());
                }
            });
            for step in 0..400 {
                pool.heap().run(|tx| tx.alloc_zeroed(10_000 + step, 16, TYPE)).unwrap();
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }
}

/// A transaction that meets lost memory while it is written back is in doubt. No snapshot shows a part of it.
#[test]
fn no_snapshot_of_transaction_in_doubt() {
    for _ in 0..30 {
        let (file, medium) = memory::file(4 << 20);
        let heap = heap::create(Arc::new(medium));
        let near = alloc(&heap, 4_000);
        let far = iter::repeat_with(|| alloc(&heap, 100_000)).find(|far| far.get() >= 3 << 20).unwrap();
        file.set_len(3 << 20).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                while let Ok(snapshot) = heap.snapshot() {
                    assert_eq!(load(&snapshot, near), 0);
                }
            });
            thread::yield_now();
            let result: Result<(), HeapError> = heap.run(|tx| {
                tx.lock(near)?;
                tx.lock(far)?;
                tx.store_words(near, &[7; 400]);
                tx.store_words(far, &[7; 8]);
                Ok(())
            });
            assert!(matches!(result, Err(HeapError::InDoubt(_))), "{result:?}");
        });
        // Closing would meet the lost memory again.
        mem::forget(heap);
    }
}
