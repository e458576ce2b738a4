//! A transaction that is no closure commits whole, or reports its conflict and changes nothing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::{Heap, HeapError, OpenTransaction, Tx};
use lode_layout::PoolOffset;
use lode_pmem::{Mapping, Medium};
use lode_testing::{heap, memory};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Makes an object with two words, which are 1 and 2, on lines of their own.
fn two_words() -> (Heap<Arc<Mapping>>, [PoolOffset; 2]) {
    let heap = heap::create(Arc::new(memory::persistent(4 << 20)));
    let at = heap.run(|tx| {
        let at = tx.alloc_zeroed(128, 64, 7)?;
        tx.set_root(at);
        tx.store8(at, 1);
        tx.store8(at.plus(64), 2);
        Ok::<_, HeapError>(at)
    });
    let at = at.unwrap();
    (heap, [at, at.plus(64)])
}

fn add<M: Medium>(tx: &Tx<'_, M>, at: PoolOffset, more: u64) -> Result<u64, HeapError> {
    let old = tx.read8(at)?;
    tx.lock(at)?;
    tx.store8(at, old + more);
    Ok(old)
}

fn values(heap: &Heap<Arc<Mapping>>, words: [PoolOffset; 2]) -> [u64; 2] {
    heap.memory().reading(|memory| words.map(|at| memory.load8(at))).unwrap()
}

#[test]
fn open_transaction_commits_all_steps() {
    let (heap, words) = two_words();
    let tx = heap.begin().unwrap();
    assert_eq!(tx.step(|tx| add(tx, words[0], 10)), Ok(1));
    assert_eq!(tx.step(|tx| add(tx, words[1], 10)), Ok(2));
    assert_eq!(tx.step(|tx| Ok::<_, HeapError>(tx.load8(words[0]))), Ok(11));
    assert_eq!(values(&heap, words), [1, 2], "nothing is visible before the commit");
    assert_eq!(heap.begin().map(drop), Err(HeapError::InTransaction));
    tx.commit().unwrap();
    assert_eq!(values(&heap, words), [11, 12]);
    // The thread can begin the next one.
    heap.begin().unwrap().commit().unwrap();
}

#[test]
fn dropped_transaction_changes_nothing() {
    let (heap, words) = two_words();
    let tx = heap.begin().unwrap();
    let object = tx.step(|tx| tx.alloc(64, 8, 9)).unwrap();
    tx.step(|tx| add(tx, words[0], 10)).unwrap();
    drop(tx);
    assert_eq!(values(&heap, words), [1, 2]);
    assert_eq!(heap.object(object), Err(HeapError::NoObject { at: object }));
    assert!(!heap.in_transaction());
}

#[test]
fn commit_reports_conflict() {
    let (heap, words) = two_words();
    let step = |tx: &OpenTransaction<'_, Arc<Mapping>>| {
        let sum = tx.step(|tx| Ok::<_, HeapError>(tx.read8(words[0])? + tx.read8(words[1])?))?;
        tx.step(|tx| add(tx, words[1], sum))
    };
    let tx = heap.begin().unwrap();
    step(&tx).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| heap.run(|tx| add(tx, words[0], 5)).unwrap());
    });
    assert_eq!(tx.commit(), Err(HeapError::Conflict));
    assert_eq!(values(&heap, words), [6, 2]);
    // Its locks are free again, and the next attempt succeeds.
    let tx = heap.begin().unwrap();
    step(&tx).unwrap();
    tx.commit().unwrap();
    assert_eq!(values(&heap, words), [6, 10]);
}

#[test]
fn panicking_step_keeps_transaction_from_committing() {
    let (heap, words) = two_words();
    let tx = heap.begin().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        tx.step(|tx| {
            add(tx, words[0], 10)?;
            assert!(words[0].is_null(), "a panic in the middle of a step");
            add(tx, words[1], 10)
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(tx.commit(), Err(HeapError::NestedFailed));
    assert_eq!(values(&heap, words), [1, 2]);
}

#[test]
fn fault_of_step_fails_commit() {
    let (heap, words) = two_words();
    let tx = heap.begin().unwrap();
    tx.step(|tx| add(tx, words[0], 10)).unwrap();
    let outside = PoolOffset::new(1 << 40);
    let failed = tx.step(|tx| Ok::<_, HeapError>(tx.load8(outside)));
    assert!(matches!(failed, Err(HeapError::Fault(fault)) if fault.at == outside), "{failed:?}");
    assert!(matches!(tx.commit(), Err(HeapError::Fault(fault)) if fault.at == outside));
    assert_eq!(values(&heap, words), [1, 2]);
}
