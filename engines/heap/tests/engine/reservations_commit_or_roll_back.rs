//! Reserved space stays free on the medium until a transaction that publishes it has committed. Then it holds the
//! acknowledged content.
//!
//! Post-mortem. A reservation was published by reference, so a closure could drop it before the
//! commit: its space was given back, committed, and allocated once more. And it could be stored to after it was
//! published: above 1 KiB the checksum in the record no longer fitted, and recovery dropped the acknowledged
//! transaction; below, the store was overwritten by the commit.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::faulty_medium::FaultyMedium;
use crate::pool::Pool;
use lode_heap::{Heap, HeapError, NotPublished, Reservation};
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use lode_testing::{heap, memory};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

const LEN: u64 = 4 << 20;
/// Content that goes through the record, content whose checksum goes through it, and an object in a span of its own.
const SIZES: [u64; 3] = [64, 2000, 50_000];
const TYPE: u64 = 9;

fn content_of(size: u64) -> Vec<u8> {
    (0..size).map(|index| index as u8 ^ 0x5a).collect()
}

/// Allocates until the pool is full, and says whether any object lies at `at`.
fn is_allocated_again<M: Medium>(heap: &Heap<M>, at: PoolOffset, size: u64) -> bool {
    let mut places = HashSet::new();
    while let Ok(place) = heap.run(|tx| tx.alloc(size, 64, TYPE)) {
        assert!(places.insert(place.get()), "{place} is allocated twice");
    }
    places.contains(&at.get())
}

#[test]
fn publish_or_roll_back() {
    for size in [1, 40, 64, 1000, 1032, 2000, 5000, 50_000, 100_000] {
        let mut pool = Pool::new(LEN);
        let heap = pool.heap();
        let content = content_of(size);
        let reserved = heap.reserve(size, 64, TYPE).unwrap();
        let other = heap.reserve(size, 64, TYPE).unwrap();
        let at = reserved.at();
        assert!(at.get().is_multiple_of(64) && at.get().abs_diff(other.at().get()) >= size);
        reserved.store(0, &content).unwrap();
        assert!(reserved.store(1, &content).is_err());
        assert_eq!(heap.next_object(PoolOffset::NULL), Ok(None));
        // A transaction that fails hands it back.
        let failed = heap.run_with([reserved, other], |tx, [reserved, _]| {
            tx.publish(reserved)?;
            Err::<(), _>(HeapError::InTransaction)
        });
        let NotPublished { error, reservations } = failed.unwrap_err();
        let [reserved, other] = reservations.unwrap();
        assert_eq!((error, heap.objects().count()), (HeapError::InTransaction, 0));
        let published = heap.run_with(reserved, |tx, reserved| {
            assert_eq!((reserved.at(), reserved.size()), (at, size));
            reserved.store(tx, size - 1, &content[size as usize - 1..])?;
            assert_eq!(reserved.store(tx, size, &[1]), Err(HeapError::NoObject { at: at.plus(size) }));
            tx.publish(reserved)
        });
        assert_eq!(published.unwrap(), at);
        drop(other);
        drop(heap);
        if size <= 1024 {
            // A power cut may lose what is written back: the content is in the record.
            pool.medium().store(at, &vec![0; size as usize]);
        }
        let heap = pool.heap();
        let object = heap.object(at).unwrap();
        assert!(object.type_number == TYPE && object.size >= size);
        assert!(heap.memory().reading(|memory| memory.equals(at, &content)).unwrap(), "{size}");
        heap.run(|tx| tx.free(at)).unwrap();
        assert_eq!(heap.object(at), Err(HeapError::NoObject { at }));
    }
}

#[test]
fn unpublished_reservation_is_released_at_commit() {
    for size in SIZES {
        let mut pool = Pool::new(LEN);
        let heap = pool.heap();
        let all: Vec<_> = (0..3).map(|_| heap.reserve(size, 64, TYPE).unwrap()).collect();
        let places: Vec<_> = all.iter().map(Reservation::at).collect();
        let published = heap.run_with(all, |tx, mut all| tx.publish(all.swap_remove(1)));
        assert_eq!(published.unwrap(), places[1]);
        let mut free = HashSet::new();
        while let Ok(place) = heap.run(|tx| tx.alloc(size, 64, TYPE)) {
            assert!(free.insert(place));
        }
        assert_eq!(places.iter().map(|at| free.contains(at)).collect::<Vec<_>>(), [true, false, true]);
    }
}

#[test]
fn store_after_publish_is_logged() {
    for size in SIZES {
        let mut pool = Pool::new(LEN);
        let heap = pool.heap();
        let mut content = content_of(size);
        let reserved = heap.reserve(size, 64, TYPE).unwrap();
        reserved.store(0, &content).unwrap();
        let at = heap
            .run_with(reserved, |tx, reserved| {
                let at = tx.publish(reserved)?;
                tx.store(at.plus(9), b"later");
                Ok::<_, HeapError>(at)
            })
            .unwrap();
        content[9..14].copy_from_slice(b"later");
        assert!(heap.memory().reading(|memory| memory.equals(at, &content)).unwrap());
        // Content longer than a record stays in place, and was drained before the record.
        let is_logged = size / 8 < heap.log().record_words_max() as u64;
        // A crash, at which no line of the object was written back since.
        drop(heap);
        if is_logged {
            pool.medium().store(at, &vec![0; size as usize]);
        } else {
            pool.medium().store(at.plus(9), &[0; 5]);
        }
        let heap = pool.heap();
        assert!(heap.object(at).is_ok(), "{size}: an acknowledged transaction is gone");
        assert!(heap.memory().reading(|memory| memory.equals(at, &content)).unwrap(), "{size}");
    }
}

#[test]
fn each_attempt_gets_its_reservations() {
    for size in SIZES {
        let mut pool = Pool::new(LEN);
        let heap = pool.heap();
        let reserved = heap.reserve(size, 64, TYPE).unwrap();
        let mut attempts = 0;
        let at = heap
            .run_with([reserved], |tx, [reserved]| {
                attempts += 1;
                // The first attempt publishes and conflicts; of the second, the object is.
                if attempts == 1 {
                    tx.publish(reserved)?;
                    return Err(tx.restart());
                }
                reserved.store(tx, 0, b"again")?;
                tx.publish(reserved)
            })
            .unwrap();
        assert_eq!((attempts, heap.objects().count()), (2, 1));
        assert!(heap.memory().reading(|memory| memory.equals(at, b"again")).unwrap());
        let reserved = heap.reserve(size, 64, TYPE).unwrap();
        let at = reserved.at();
        attempts = 0;
        heap.run_with(reserved, |tx, reserved| {
            attempts += 1;
            if attempts == 1 {
                tx.publish(reserved)?;
                return Err(tx.restart());
            }
            Ok::<_, HeapError>(())
        })
        .unwrap();
        assert_eq!(heap.objects().count(), 1, "what only the first attempt published is no object");
        assert!(is_allocated_again(&heap, at, size));
    }
}

#[test]
fn panic_releases_reservations() {
    for size in SIZES {
        let mut pool = Pool::new(LEN);
        let heap = pool.heap();
        let reserved = heap.reserve(size, 64, TYPE).unwrap();
        let at = reserved.at();
        let run = AssertUnwindSafe(|| {
            heap.run_with(reserved, |tx, reserved| {
                tx.publish(reserved)?;
                panic!("a bug of the program");
                #[allow(unreachable_code, reason = "it gives the closure its type")]
                Ok::<(), HeapError>(())
            })
        });
        assert!(catch_unwind(run).is_err());
        assert_eq!(heap.objects().count(), 0);
        assert!(is_allocated_again(&heap, at, size));
    }
}

/// The medium's own code panics when the record is durable and nothing is written back.
#[test]
fn panic_in_commit_keeps_space_reserved() {
    for size in SIZES {
        let medium = FaultyMedium::new(Arc::new(memory::persistent(LEN)));
        let heap = heap::create(medium.clone());
        let reserved = heap.reserve(size, 64, TYPE).unwrap();
        reserved.store(0, &content_of(size)).unwrap();
        let places = Mutex::new(Vec::new());
        medium.listen(|_, _| panic!("the medium"));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            heap.run_with(reserved, |tx, reserved| {
                let other = tx.alloc(size, 64, TYPE)?;
                tx.store8(other, 1);
                let published = tx.publish(reserved)?;
                places.lock().unwrap().extend([other, published]);
                Ok::<_, HeapError>(())
            })
            .is_ok()
        }));
        assert!(panicked.is_err());
        let places = places.into_inner().unwrap();
        assert_eq!(heap.run(|tx| tx.alloc(size, 64, TYPE)), Err(HeapError::Poisoned));
        assert_eq!(heap.reserve(size, 64, TYPE).err(), Some(HeapError::Poisoned));
        // A transaction that can't commit may still fill new objects in place.
        let content = vec![0xee; size as usize / 8];
        let taken = heap.run(|tx| {
            let at = tx.alloc_with(&content, 64, TYPE)?;
            assert!(!places.contains(&at), "{size} bytes");
            Ok::<_, HeapError>(at)
        });
        assert_eq!(taken, Err(HeapError::Poisoned));
        drop(heap);
        let heap = heap::open(medium.mapping().clone(), 3);
        let objects: Vec<_> = heap.objects().map(|object| object.unwrap().at).collect();
        assert!(places.iter().all(|at| objects.contains(at)), "{size} bytes");
    }
}

#[test]
fn in_doubt_transaction_keeps_space_reserved() {
    for size in SIZES {
        let medium = FaultyMedium::new(Arc::new(memory::persistent(LEN)));
        let heap = heap::create(medium.clone());
        let reserved = heap.reserve(size, 64, TYPE).unwrap();
        reserved.store(0, &content_of(size)).unwrap();
        medium.refuse_log_writes();
        let NotPublished { error, reservations } =
            heap.run_with(reserved, |tx, reserved| tx.publish(reserved)).unwrap_err();
        assert!(matches!(error, HeapError::InDoubt(_)), "{error}");
        assert!(reservations.is_none());
        drop(reservations);

        // The record did reach the medium. A new owner of the space would spoil the content whose checksum it holds.
        assert_eq!(heap.reserve(size, 64, TYPE).err(), Some(HeapError::Poisoned));
        let filled: Result<(), HeapError> = heap.run(|tx| {
            loop {
                tx.alloc_with(&vec![0xee; size as usize / 8], 64, TYPE)?;
            }
        });
        assert!(filled.is_err());
        drop(heap);
        let medium = Arc::clone(medium.mapping());
        let (heap, recovery) = heap::recover(medium, 3);
        let object = heap.objects().next().unwrap().unwrap();
        assert_eq!(recovery.suspect_records, 0);
        assert!(
            heap.memory().reading(|memory| memory.equals(object.at, &content_of(size))).unwrap(),
            "{size}"
        );
    }
}

#[test]
fn reservation_of_another_heap_is_refused() {
    let (mut pool, mut elsewhere) = (Pool::new(LEN), Pool::new(LEN));
    let (heap, other) = (pool.heap(), elsewhere.heap());
    let reserved = heap.reserve(64, 8, TYPE).unwrap();
    let at = reserved.at();
    let mut slot = Some(reserved);
    let nested = heap.run(|_| {
        let reserved = slot.take().unwrap();
        Ok::<_, HeapError>(heap.run_with(reserved, |tx, reserved| tx.publish(reserved)).unwrap_err())
    });
    let NotPublished { error, reservations } = nested.unwrap();
    assert_eq!(error, HeapError::InTransaction);
    let reserved = reservations.unwrap();
    let refused = other.run_with(reserved, |tx, reserved| {
        assert_eq!(reserved.store(tx, 0, &[1]), Err(HeapError::NoObject { at }));
        tx.publish(reserved)
    });
    let NotPublished { error, reservations } = refused.unwrap_err();
    assert_eq!(error, HeapError::NoObject { at });
    assert_eq!(heap.run_with(reservations.unwrap(), |tx, reserved| tx.publish(reserved)).unwrap(), at);
}

#[test]
fn cancelled_reservation_is_reused() {
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    for _ in 0..50 {
        // More than half of the pool each.
        heap.reserve(LEN / 8 * 5, 4096, 1).unwrap().cancel();
        let small: Vec<_> = (0..200).map(|_| heap.reserve(2000, 16, 1).unwrap()).collect();
        drop(small);
    }
    assert_eq!(heap.objects().count(), 0);
    assert_eq!(heap.reserve(1, 8192, 1).err(), Some(HeapError::Alignment { align: 8192 }));
    assert!(matches!(heap.reserve(LEN, 16, 1).err(), Some(HeapError::OutOfSpace { .. })));
    let nested = heap.run(|_| Ok::<_, HeapError>(heap.reserve(8, 8, 1).err()));
    assert_eq!(nested, Ok(Some(HeapError::InTransaction)));
}
