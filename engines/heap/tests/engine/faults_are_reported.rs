//! What can't be read is an error of the call that read it, and zeros are never an answer.
//!
//! Post-mortem. `PCell::load` of a value above 8 bytes returned zeros from freshly poisoned memory, and the
//! next transaction discarded the fault. So did a transaction whose closure decided by such zeros to return an error of
//! its own: the caller heard of that one.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::{Heap, HeapError, PCell, PVec, Persist, TypedHeap};
use lode_layout::{Geometry, PoolOffset};
use lode_pmem::{FaultKind, FaultScope, Mapping};
use lode_testing::memory;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const LEN: u64 = 1 << 20;
const PAGE: u64 = 4096;

lode_heap::brand!(Typed);

#[derive(Persist)]
#[persist(brand = Typed)]
#[repr(C)]
struct Root {
    small: PCell<u64, Typed>,
    list: PVec<u64, Typed>,
    between: [u64; 1500],
    wide: PCell<[u64; 3], Typed>,
}

/// A heap in a file. Cutting the file short loses its end.
fn pool() -> (File, Heap<Arc<Mapping>>) {
    let (file, medium) = memory::file(LEN);
    let (medium, geometry) = (Arc::new(medium), Geometry::plan(LEN).unwrap());
    Heap::format(&medium, &geometry, &[5; 16], [1, 1]).unwrap();
    (file, Heap::open(medium, &geometry, [5; 16], [2, 2]).unwrap().0)
}

fn lose(file: &File, at: PoolOffset) {
    file.set_len(at.get() / PAGE * PAGE).unwrap();
}

fn is_lost<T>(result: Result<T, HeapError>) -> bool {
    matches!(result, Err(HeapError::Fault(fault)) if fault.kind == FaultKind::Poison)
}

#[test]
fn typed_data_faults() {
    // No call leaves a fault to the thread.
    assert_eq!(FaultScope::run(typed_data), Ok(()));
}

fn typed_data() {
    let (file, heap) = pool();
    let heap = TypedHeap::<Typed, _>::new(heap);
    let new = Root { small: PCell::new(1), list: PVec::new(), between: [0; 1500], wide: PCell::new([7; 3]) };
    let mut new = Some(new);
    let root = heap.root_or_init(|_| Ok(new.take().unwrap())).unwrap();
    heap.run(|tx| root.list.extend_from_slice(tx, &[3; 2000])).unwrap();
    assert_eq!(root.wide.load(&heap.guard()), Ok([7; 3]));
    let number = <Root as Persist<Typed>>::TYPE_NUMBER;
    let root_at = heap.objects().map(Result::unwrap).find(|object| object.type_number == number).unwrap().at;
    lose(&file, root_at.plus(size_of::<Root>() as u64));
    for round in 0..2 {
        assert!(is_lost(root.wide.load(&heap.guard())), "{round}");
        assert_eq!(heap.run(|tx| root.small.get(tx)), Ok(1), "another transaction's fault");
        assert!(is_lost(heap.run(|tx| root.wide.get(tx))));
        let decided = heap.run(|tx| {
            let seen = root.wide.get(tx)?;
            // The closure takes zeros for an answer, and refuses.
            if seen == [0; 3] { Err(HeapError::NestedFailed) } else { Ok(()) }
        });
        assert!(is_lost(decided.clone()), "{decided:?}");
        let swallowed = heap.run(|tx| {
            let _ = root.wide.get(tx);
            Ok(())
        });
        assert!(is_lost(swallowed));
        assert!(is_lost(root.list.load(&heap.guard(), 1999)));
        assert!(is_lost(root.list.load_all(&heap.guard())));
        assert!(is_lost(heap.run(|tx| root.list.get(tx, 1999))));
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        heap.run(|tx| {
            assert_eq!(root.wide.get(tx)?, [7; 3]);
            Ok(())
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(heap.run(|tx| root.small.set(tx, 2)), Ok(()), "the panic told of it");
}

#[test]
fn word_and_object_faults() {
    assert_eq!(FaultScope::run(words_and_objects), Ok(()));
}

fn words_and_objects() {
    let (file, heap) = pool();
    let (kept, at) =
        heap.run(|tx| Ok::<_, HeapError>((tx.alloc(64, 8, 1)?, tx.alloc(40_000, 8, 1)?))).unwrap();
    let reserved = heap.reserve(40_000, 8, 1).unwrap();
    lose(&file, at.plus(PAGE));
    let lost = at.plus(3 * PAGE);
    assert!(is_lost(reserved.store(2 * PAGE, &[1; 100])));
    assert!(is_lost(heap.run(|tx| Ok(tx.load8(lost)))));
    assert!(is_lost(heap.run(|tx| if tx.load8(lost) == 0 { Err(HeapError::NestedFailed) } else { Ok(()) })));
    let mut attempts = 0;
    let again = heap.run(|tx| {
        attempts += 1;
        if attempts == 1 {
            tx.load8(lost);
            return Err(tx.restart());
        }
        Ok(())
    });
    assert_eq!((again, attempts), (Ok(()), 2), "what is read again counts");
    // A fault of a load past the heap is the caller's, before a transaction and after.
    let scope = FaultScope::open();
    assert_eq!(scope.memory(heap.memory()).load8(lost), 0);
    heap.run(|tx| {
        tx.store8(kept, 1);
        Ok::<_, HeapError>(())
    })
    .unwrap();
    heap.log().checkpoint().unwrap();
    assert_eq!((heap.root(), heap.object(kept).is_ok()), (Ok(PoolOffset::NULL), true));
    assert!(scope.close().is_err());
    // A transaction joined by another call of the same heap has the faults of both.
    let joined = heap.run(|_| {
        let _ = heap.run(|tx| Ok::<_, HeapError>(tx.load8(lost)));
        Ok::<_, HeapError>(())
    });
    assert!(is_lost(joined));
    assert_eq!(heap.objects().filter(|object| is_lost(object.clone())).count(), 0);
    // Lost tables are no empty ones.
    drop(reserved);
    lose(&file, Geometry::plan(LEN).unwrap().extents()[0].start);
    assert!(is_lost(heap.root()) && is_lost(heap.object(at)) && is_lost(heap.stats()));
    assert!(is_lost(heap.next_object(PoolOffset::NULL)));
    assert_eq!(heap.objects().map(is_lost).collect::<Vec<_>>(), [true]);
}
