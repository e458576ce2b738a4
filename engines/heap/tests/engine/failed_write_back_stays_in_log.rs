//! A transaction whose write-backs met lost memory is in doubt, and its record stays: it is replayed once the memory is
//! back.
//!
//! Post-mortem. The log promised that no checkpoint frees such a record, but released the lane before it
//! refused further work: a checkpoint in between freed the record. One that the same commit set off took the fault with
//! it, and the transaction was acknowledged. And `run` returned `Fault`, after which nothing has happened, though the
//! transaction was durable; the space that it had taken was given to others.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::faulty_medium::FaultyMedium;
use lode_heap::{Heap, HeapError, InDoubtCause, LogError};
use lode_layout::{Geometry, PoolOffset};
use lode_pmem::{Durability, FaultKind, Mapping, Medium as _};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

const LEN: u64 = 1 << 20;
const PAGE: u64 = 4096;
const UUID: [u8; 16] = [5; 16];
const DURABILITIES: [Durability; 3] = [Durability::Line, Durability::None, Durability::Commit];

/// A pool in a file, of which the end can be cut off and brought back.
struct Pool {
    file: File,
    medium: FaultyMedium,
    geometry: Geometry,
    lives: u64,
    lost: Vec<u8>,
}

fn map(file: &File, durability: Durability) -> FaultyMedium {
    let mapped = Mapping::options().durability(durability).map_file(file.try_clone().unwrap(), "a file");
    FaultyMedium::new(Arc::new(mapped.unwrap()))
}

impl Pool {
    fn new(durability: Durability) -> Pool {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LEN).unwrap();
        let (medium, geometry) = (map(&file, durability), Geometry::plan(LEN).unwrap());
        Heap::format(&medium, &geometry, &UUID, [1, 1]).unwrap();
        Pool { file, medium, geometry, lives: 1, lost: Vec::new() }
    }

    fn open(&mut self) -> Result<Heap<FaultyMedium>, HeapError> {
        self.lives += 1;
        Heap::open(self.medium.clone(), &self.geometry, UUID, [self.lives; 2]).map(|(heap, _)| heap)
    }

    /// Loses all from the page of `at` on.
    fn lose(&mut self, at: PoolOffset) {
        let from = at.get() / PAGE * PAGE;
        self.lost = vec![0; (LEN - from) as usize];
        self.file.read_exact_at(&mut self.lost, from).unwrap();
        self.file.set_len(from).unwrap();
    }

    /// Brings it back as it was.
    fn restore_memory(&mut self) {
        self.file.set_len(LEN).unwrap();
        self.file.write_all_at(&self.lost, LEN - self.lost.len() as u64).unwrap();
        self.medium = map(&self.file, self.medium.durability());
    }
}

/// Two objects, the second one far behind the first.
fn objects(heap: &Heap<FaultyMedium>) -> [PoolOffset; 2] {
    heap.run(|tx| Ok::<_, HeapError>([tx.alloc(600, 8, 1)?, tx.alloc(40_000, 8, 1)?])).unwrap()
}

fn fill(heap: &Heap<FaultyMedium>, at: PoolOffset, value: u64) {
    heap.run(|tx| {
        tx.store_words(at, &[value; 60]);
        Ok::<_, HeapError>(())
    })
    .unwrap();
}

fn is_failed_write_back(result: &Result<(), HeapError>) -> bool {
    matches!(result, Err(HeapError::InDoubt(InDoubtCause::WriteBack(fault))) if fault.kind == FaultKind::Poison)
}

/// The ring becomes half full with the transaction that meets lost memory, or is so before or after.
#[test]
fn record_stays_at_any_ring_position() {
    for durability in DURABILITIES {
        for before in 0..14 {
            let mut pool = Pool::new(durability);
            let heap = pool.open().unwrap();
            let [kept, at] = objects(&heap);
            (0..before).for_each(|round| fill(&heap, kept, round));
            pool.lose(at);
            let result = heap.run(|tx| {
                tx.store_words(kept, &[99; 60]);
                tx.store8(at, 7);
                Ok(())
            });
            assert!(is_failed_write_back(&result), "{durability}, {before} before: {result:?}");
            assert_eq!(heap.run(|tx| tx.alloc(64, 8, 1)), Err(HeapError::Poisoned), "{durability} {before}");
            assert_eq!(heap.log().checkpoint(), Err(LogError::Poisoned));
            drop(heap);
            let error = pool.open().map(drop);
            assert!(matches!(error, Err(HeapError::Fault(_))), "{durability} {before}: {error:?}");
            pool.restore_memory();
            let heap = pool.open().unwrap();
            assert_eq!(
                (
                    heap.memory().reading(|memory| memory.load8(kept)).unwrap(),
                    heap.memory().reading(|memory| memory.load8(at)).unwrap()
                ),
                (99, 7),
                "{durability} {before}"
            );
        }
    }
}

/// A checkpoint that began before waits for the write-back of the transaction.
#[test]
fn record_stays_during_checkpoint() {
    for durability in DURABILITIES {
        let mut pool = Pool::new(durability);
        let heap = pool.open().unwrap();
        let [_, at] = objects(&heap);
        let (in_home_stores, waits) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
        let (arrived, waiting) = (Arc::clone(&in_home_stores), Arc::clone(&waits));
        pool.medium.listen(move |place, _| {
            if place == at {
                arrived.wait();
                while !waiting.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
            }
        });
        let told = Arc::clone(&waits);
        pool.medium.when_waiting(move || told.store(true, Ordering::SeqCst));
        pool.lose(at);
        let (stored, checkpointed) = thread::scope(|threads| {
            let checkpointer = threads.spawn(|| {
                in_home_stores.wait();
                heap.log().checkpoint()
            });
            let stored = heap.run(|tx| {
                tx.store8(at, 7);
                Ok(())
            });
            (stored, checkpointer.join().unwrap())
        });
        assert!(is_failed_write_back(&stored), "{durability}: {stored:?}");
        assert_eq!(checkpointed, Err(LogError::Poisoned), "{durability}");
        drop(heap);
        pool.restore_memory();
        let heap = pool.open().unwrap();
        assert_eq!(
            heap.memory().reading(|memory| memory.load8(at)).unwrap(),
            7,
            "{durability}: the record was freed"
        );
    }
}

/// No other transaction gets the space of a transaction in doubt: its record says that the space is allocated.
#[test]
fn in_doubt_space_is_not_allocated() {
    let mut pool = Pool::new(Durability::Line);
    let heap = pool.open().unwrap();
    let [_, at] = objects(&heap);
    pool.lose(at);
    let mut taken = PoolOffset::NULL;
    let result = heap.run(|tx| {
        taken = tx.alloc_with(&[5; 75], 8, 1)?;
        tx.store8(at, 7);
        Ok(())
    });
    assert!(is_failed_write_back(&result), "{result:?}");
    let mut reserved = Vec::new();
    while let Ok(more) = heap.reserve(600, 8, 1) {
        assert_ne!(more.at(), taken);
        reserved.push(more);
        if reserved.len() > 2 * LEN as usize / 600 {
            break;
        }
    }
    drop(reserved);
    drop(heap);
    pool.restore_memory();
    let heap = pool.open().unwrap();
    assert!(heap.object(taken).is_ok() && heap.memory().reading(|memory| memory.load8(taken)).unwrap() == 5);
}

/// Entries that did not fit the record lie in free space, which a record in doubt may lead to.
#[test]
fn in_doubt_spill_space_is_not_allocated() {
    let mut pool = Pool::new(Durability::Line);
    let heap = pool.open().unwrap();
    let [_, at] = objects(&heap);
    pool.medium.refuse_log_writes();
    let words: Vec<u64> = (0..5000).collect();
    let result = heap.run(|tx| {
        tx.store_words(at, &words);
        Ok::<_, HeapError>(())
    });
    assert!(matches!(result, Err(HeapError::InDoubt(InDoubtCause::Log(_)))), "{result:?}");
    let mut reserved = Vec::new();
    for size in [50_000, 30_000, 10_000, 3000] {
        while let Ok(more) = heap.reserve(size, 8, 1) {
            more.store(0, &vec![0xee; size as usize]).unwrap();
            reserved.push(more);
        }
    }
    drop(reserved);
    drop(heap);
    // The record did reach the medium.
    pool.medium = map(&pool.file, Durability::Line);
    let heap = pool.open().unwrap();
    assert!(
        heap.memory()
            .reading(|memory| memory
                .equals(at, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()))
            .unwrap()
    );
}

/// The memory of one of two transactions that wait is lost. The one before it is durable, and not in doubt.
#[test]
fn position_before_the_lost_write_back_is_durable() {
    let mut pool = Pool::new(Durability::Commit);
    let heap = pool.open().unwrap();
    let [small, large] = objects(&heap);
    let fill_later = |at| {
        let filled = heap.run_later(|tx| {
            tx.lock(at)?;
            tx.store8(at, 7);
            Ok::<_, HeapError>(())
        });
        filled.unwrap().1
    };
    let (intact, lost) = (fill_later(small), fill_later(large));
    pool.lose(large);
    assert!(is_failed_write_back(&heap.make_durable(lost)));
    assert!(!heap.is_durable(lost), "it is in doubt");
    assert_eq!((heap.make_durable(intact), heap.is_durable(intact)), (Ok(()), true));
    assert!(is_failed_write_back(&heap.make_durable(lost)), "the answer stays");
}
