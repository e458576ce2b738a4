//! A closure that returns an error, panics, or asks for too much leaves the pool as it was.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::{Medium, Pool};
use lode_heap::{HeapError, PBox, PCell, PVec, Persist, TypedHeap};
use lode_layout::PoolOffset;
use std::panic::{AssertUnwindSafe, catch_unwind};

lode_heap::brand!(Erring);
lode_heap::brand!(Panicking);
lode_heap::brand!(Nesting);
lode_heap::brand!(Catching);
lode_heap::brand!(Unwinding);
lode_heap::brand!(Looping);

macro_rules! root {
    ($name:ident, $brand:ident) => {
        #[derive(Persist)]
        #[persist(brand = $brand)]
        #[repr(C)]
        struct $name {
            count: PCell<u64, $brand>,
            list: PVec<u64, $brand>,
            child: PBox<$name, $brand>,
        }
        impl $name {
            fn new(count: u64) -> $name {
                $name { count: PCell::new(count), list: PVec::new(), child: PBox::null() }
            }
            fn change(&self, tx: &lode_heap::TypedTx<'_, $brand, Medium>) -> Result<(), HeapError> {
                self.count.set(tx, 99)?;
                self.list.extend_from_slice(tx, &[1; 1000])?;
                self.child.set(tx, tx.alloc($name::new(5))?)
            }
            fn is_new(&self, heap: &TypedHeap<$brand, Medium>) -> bool {
                let guard = heap.guard();
                let child = self.child.load(&guard).unwrap();
                self.count.load(&guard) == Ok(7) && self.list.load_len(&guard) == 0 && child.is_none()
            }
        }
    };
}

root!(ErringRoot, Erring);
root!(PanickingRoot, Panicking);
root!(NestingRoot, Nesting);
root!(CatchingRoot, Catching);

#[derive(Debug, PartialEq)]
enum Failure {
    Mine,
    Heap(HeapError),
}

impl From<HeapError> for Failure {
    fn from(error: HeapError) -> Failure {
        Failure::Heap(error)
    }
}

#[test]
fn error_rolls_back() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Erring>();
    let root = heap.root_or_init(|_| Ok(ErringRoot::new(7))).unwrap();
    let before = (heap.stats().unwrap(), heap.objects().count());
    let result = heap.try_run(|tx| {
        root.change(tx)?;
        Err::<(), _>(Failure::Mine)
    });
    assert_eq!(result, Err(Failure::Mine));
    assert!(root.is_new(&heap));
    assert_eq!((heap.stats().unwrap(), heap.objects().count()), before);
    // What was taken can be taken again.
    for _ in 0..1000 {
        let result = heap.try_run(|tx| {
            root.change(tx)?;
            root.list.extend_from_slice(tx, &[2; 10_000])?;
            Err::<(), _>(Failure::Mine)
        });
        assert_eq!(result, Err(Failure::Mine));
    }
    heap.run(|tx| root.change(tx)).unwrap();
    assert!(!root.is_new(&heap));
}

#[test]
fn panic_rolls_back() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Panicking>();
    let root = heap.root_or_init(|_| Ok(PanickingRoot::new(7))).unwrap();
    let before = (heap.stats().unwrap(), heap.objects().count());
    let caught = catch_unwind(AssertUnwindSafe(|| {
        heap.run(|tx| {
            root.change(tx)?;
            let _owned = tx.alloc(PanickingRoot::new(1))?;
            if root.count.get(tx)? == 99 {
                panic!("as planned");
            }
            Ok(())
        })
    }));
    assert!(caught.is_err());
    assert!(root.is_new(&heap));
    assert_eq!((heap.stats().unwrap(), heap.objects().count()), before);
    heap.run(|tx| root.change(tx)).unwrap();
    let seen = heap.run(|tx| Ok((root.count.get(tx)?, root.list.len(tx)?)));
    assert_eq!(seen, Ok((99, 1000)));
}

#[test]
fn nested_error_forces_rollback() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Nesting>();
    let root = heap.root_or_init(|_| Ok(NestingRoot::new(7))).unwrap();
    // The outer one drops the error of the inner one.
    let result = heap.try_run(|tx| {
        root.count.set(tx, 8)?;
        let inner = heap.try_run(|tx| {
            root.change(tx)?;
            Err::<(), _>(Failure::Mine)
        });
        assert_eq!(inner, Err(Failure::Mine));
        Ok::<_, Failure>(())
    });
    assert_eq!(result, Err(Failure::Heap(HeapError::NestedFailed)));
    assert!(root.is_new(&heap));
    // An inner one that succeeds is undone with the outer one.
    let result = heap.try_run(|_| {
        heap.run(|tx| root.change(tx))?;
        Err::<(), _>(Failure::Mine)
    });
    assert_eq!(result, Err(Failure::Mine));
    assert!(root.is_new(&heap));
    // Both see one another's changes.
    heap.run(|tx| {
        root.count.set(tx, 8)?;
        heap.run(|tx| {
            assert_eq!(root.count.get(tx)?, 8);
            root.count.set(tx, 9)
        })?;
        assert_eq!(root.count.get(tx)?, 9);
        root.list.push(tx, 3)
    })
    .unwrap();
    let guard = heap.guard();
    assert_eq!((root.count.load(&guard), root.list.load_all(&guard)), (Ok(9), Ok(vec![3])));
}

#[test]
fn spilled_and_oversized_transactions() {
    const LEN: u64 = 4 << 20;
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    let place = heap.run(|tx| {
        let place = tx.alloc_zeroed(LEN / 2, 16, 1)?;
        tx.set_root(place);
        Ok::<_, HeapError>(place)
    });
    let place = place.unwrap();
    let fill = |value: u64, words: u64| {
        heap.run(|tx| {
            for word in 0..words {
                tx.store8(place.plus(word * 8), value);
            }
            Ok::<_, HeapError>(())
        })
    };
    let all = |value: u64| {
        (0..LEN / 64)
            .all(|word| heap.memory().reading(|memory| memory.load8(place.plus(word * 8))).unwrap() == value)
    };
    let words = LEN / 64;
    assert!(words > heap.log().record_words_max() as u64);
    fill(5, words).unwrap();
    assert!(all(5));
    let free = heap.stats().unwrap().free_chunk_bytes;
    let Err(HeapError::TooLarge { wanted, limit }) = fill(6, LEN / 16) else {
        panic!("too large a transaction was not refused");
    };
    assert!(wanted > limit && limit <= free / 2, "{wanted} {limit} {free}");
    assert!(all(5));
    fill(7, words).unwrap();
    assert!(all(7));
    drop(heap);
    let heap = pool.heap();
    assert!(
        (0..words)
            .all(|word| heap.memory().reading(|memory| memory.load8(place.plus(word * 8))).unwrap() == 7)
    );
}

/// Space that a transaction takes counts against the log of its later changes: what no longer fits is refused at once,
/// and not when it commits.
#[test]
fn limit_of_log_follows_free_space() {
    const LEN: u64 = 8 << 20;
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    let place = heap.run(|tx| tx.alloc_zeroed(LEN / 4, 16, 1)).unwrap();
    let words = heap.log().record_words_max() as u64 + 4096;
    let free = heap.stats().unwrap().free_chunk_bytes;
    let fill = |tx: &lode_heap::Tx<'_, Medium>, words: std::ops::Range<u64>| {
        words.for_each(|word| tx.store8(place.plus(word * 8), 1));
    };
    let ended = heap.run(|tx| {
        fill(tx, 0..words);
        // Leaves an eighth, and the log is to take a quarter.
        tx.alloc(free / 8 * 7, 16, 1)?;
        fill(tx, words..free / 4 / 8);
        Ok::<_, HeapError>(())
    });
    let Err(HeapError::TooLarge { wanted, limit }) = ended else { panic!("{ended:?}") };
    assert!(wanted > limit && limit <= free / 16, "{wanted} {limit} {free}");
}

/// A closure that fails because what it stored was left out is not to blame.
#[test]
fn too_large_counts_before_error_of_closure() {
    const LEN: u64 = 8 << 20;
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    let place = heap.run(|tx| tx.alloc_zeroed(LEN / 2, 16, 1)).unwrap();
    let ended = heap.run(|tx| {
        (0..LEN / 16).for_each(|word| tx.store8(place.plus(word * 8), 1));
        assert!(tx.will_roll_back());
        let is_stored = tx.load8(place.plus(LEN / 2 - 8)) == 1;
        if is_stored { Ok(()) } else { Err(HeapError::NoObject { at: place }) }
    });
    assert!(matches!(ended, Err(HeapError::TooLarge { .. })), "{ended:?}");
}

/// A closure that goes on after its transaction became too large comes to an end: what it removes does not come again.
#[test]
fn loops_end_in_too_large_transactions() {
    const LEN: u64 = 8 << 20;
    let mut pool = Pool::new(LEN);
    let heap = pool.typed::<Looping>();
    let numbers = heap.root_or_init(|_| Ok(PVec::<u64, Looping>::new())).unwrap();
    let len = LEN / 16;
    heap.run(|tx| numbers.extend_from_slice(tx, &vec![1; len as usize])).unwrap();
    let ended = heap.run(|tx| {
        (0..len).for_each(|index| drop(numbers.set(tx, index, 2)));
        let mut left = len;
        while numbers.pop(tx)?.is_some() {
            left = left.checked_sub(1).expect("the vector has no more elements");
        }
        Ok::<_, HeapError>(())
    });
    assert!(matches!(ended, Err(HeapError::TooLarge { .. })), "{ended:?}");
    assert_eq!(numbers.load_len(&heap.guard()), len);
}

#[test]
fn caught_nested_panic_forces_rollback() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Catching>();
    let root = heap.root_or_init(|_| Ok(CatchingRoot::new(7))).unwrap();
    let result = heap.run(|tx| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            heap.run(|tx| {
                root.change(tx)?;
                if root.count.get(tx)? == 99 {
                    panic!("as planned");
                }
                Ok(())
            })
        }));
        assert!(caught.is_err());
        root.list.push(tx, 1)
    });
    assert_eq!(result, Err(HeapError::NestedFailed));
    assert!(root.is_new(&heap));
}

/// A transaction that a destructor runs, and one that catches a panic, commit: objects that they drop are freed.
#[test]
fn owner_dropped_in_unwind_is_freed() {
    struct Tidy<'a>(&'a TypedHeap<Unwinding, Medium>, &'a PBox<u64, Unwinding>);
    impl Drop for Tidy<'_> {
        fn drop(&mut self) {
            let done = self.0.run(|tx| {
                drop(tx.alloc(1)?);
                drop(self.1.take(tx)?);
                self.1.set(tx, tx.alloc(2)?)
            });
            assert_eq!(done, Ok(()));
        }
    }
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Unwinding>();
    let root = heap.root_or_init(|_| Ok(PBox::null())).unwrap();
    heap.run(|tx| root.set(tx, tx.alloc(5)?)).unwrap();
    let objects = heap.objects().count();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _tidy = Tidy(&heap, root);
        panic!("as planned");
    }));
    assert!(caught.is_err());
    assert_eq!((root.load(&heap.guard()), heap.objects().count()), (Ok(Some(&2)), objects));
    heap.run(|tx| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _owned = tx.alloc(3);
            panic!("as planned");
        }));
        assert!(caught.is_err());
        root.set(tx, tx.alloc(4)?)
    })
    .unwrap();
    assert_eq!((root.load(&heap.guard()), heap.objects().count()), (Ok(Some(&4)), objects));
}

#[test]
fn nested_transaction_does_not_hide_fault() {
    let (mut pool, mut other_pool) = (Pool::new(1 << 20), Pool::new(1 << 20));
    let (heap, other) = (pool.heap(), other_pool.heap());
    let result = heap.run(|tx| {
        let at = tx.alloc(64, 16, 1)?;
        tx.store8(at, 1);
        tx.store8(PoolOffset::new(1 << 30), 2);
        // It has nothing to do with that fault.
        other.run(|tx| tx.alloc(64, 16, 1).map(|_| ()))
    });
    assert!(matches!(result, Err(HeapError::Fault(_))), "{result:?}");
    assert_eq!((heap.objects().count(), other.objects().count()), (0, 1));
}

#[test]
fn closure_that_always_restarts_is_an_error() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.heap();
    let before = heap.stats().unwrap();
    // Twice: the first one has let go of what it locked others out by.
    for _ in 0..2 {
        let mut runs = 0;
        let result = heap.run(|tx| {
            runs += 1;
            tx.set_root(tx.alloc(64, 16, 1)?);
            Err::<(), _>(tx.restart())
        });
        assert_eq!(result, Err(HeapError::NeverValid { restarts: runs }));
        assert_eq!((heap.root(), heap.stats().unwrap()), (Ok(PoolOffset::NULL), before.clone()));
    }
    heap.run(|tx| tx.alloc(64, 16, 1)).unwrap();
}
