//! Objects as large as the pool allows, and objects that grow and shrink where there is hardly any space left.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::{Medium, Pool};
use lode_heap::{Heap, HeapError};
use lode_layout::PoolOffset;

const LEN: u64 = 2 << 20;
/// Bytes of a span before the object in it.
const HEADER: u64 = 64;

fn is_refused<T>(result: &Result<T, HeapError>) -> bool {
    matches!(result, Err(HeapError::OutOfSpace { .. }))
}

/// Stores bytes that `seed` makes into the `size` bytes at `at`.
fn mark(heap: &Heap<Medium>, at: PoolOffset, size: u64, seed: u64) {
    let bytes: Vec<u8> = (0..size).map(|index| (seed.wrapping_mul(index + 3) >> 2) as u8).collect();
    // In parts that fit the log: where nothing is free there is no other place for them.
    for (part, index) in bytes.chunks(1024).zip(0..) {
        heap.run(|tx| {
            tx.store(at.plus(index * 1024), part);
            Ok::<_, HeapError>(())
        })
        .unwrap();
    }
}

fn is_marked(heap: &Heap<Medium>, at: PoolOffset, size: u64, seed: u64) -> bool {
    let mut bytes = vec![0; size as usize];
    heap.memory().reading(|memory| memory.read(at, &mut bytes)).unwrap();
    bytes.iter().zip(0..).all(|(byte, index)| *byte == (seed.wrapping_mul(index + 3) >> 2) as u8)
}

#[test]
fn largest_object_is_longest_free_span() {
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    let longest = heap.stats().unwrap().largest_free;
    for round in 0..12 {
        for (align, header) in [(16, HEADER), (64, HEADER), (4096, 4096)] {
            let more = heap.run(|tx| tx.alloc(longest - header + 1, align, 1));
            assert!(is_refused(&more), "{more:?}");
            let at = heap.run(|tx| tx.alloc_zeroed(longest - header, align, 1)).unwrap();
            assert!(at.get().is_multiple_of(align));
            let mut bytes = vec![1; (longest - header) as usize];
            heap.memory().reading(|memory| memory.read(at, &mut bytes)).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0), "round {round}, alignment {align}");
            mark(&heap, at, 4096, round);
            mark(&heap, at.plus(longest - header - 4096), 4096, round);
            assert!(is_refused(&heap.run(|tx| tx.alloc(1, 16, 1))));
            heap.run(|tx| tx.free(at)).unwrap();
            let reserved = heap.reserve(longest - header, align, 2).unwrap();
            assert!(heap.reserve(longest - header, align, 2).is_err());
            reserved.cancel();
        }
    }
}

#[test]
fn oversized_allocations_are_refused() {
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    for size in
        (16..64).flat_map(|shift| [u64::MAX >> (64 - shift), u64::MAX << shift, u64::MAX - (1 << shift)])
    {
        for align in [16, 4096] {
            let result = heap.run(|tx| {
                let small = tx.alloc(100, 16, 1)?;
                tx.resize(small, size, align)
            });
            match result {
                Ok(at) if size < LEN => heap.run(|tx| tx.free(at)).unwrap(),
                refused => assert!(is_refused(&refused), "{size} {refused:?}"),
            }
            assert_eq!(heap.objects().count(), 0);
        }
    }
}

/// An object that shrinks in a full pool stays where it is, since no smaller place can be had.
#[test]
fn object_shrinks_in_full_pool() {
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    let whole = heap.stats().unwrap().largest_free - HEADER;
    let at = heap.run(|tx| tx.alloc(whole, 16, 1)).unwrap();
    for size in [whole - 1, whole / 2, whole / 7, 100, 1, 0] {
        mark(&heap, at, size, size);
        assert_eq!(heap.run(|tx| tx.resize(at, size, 16)), Ok(at));
        assert!(is_marked(&heap, at, size, size));
    }
    assert!(is_refused(&heap.run(|tx| tx.resize(at, whole + 1, 16))));
}

/// More than half of what is free moves at once: content that moves is no change that the log has to hold.
#[test]
fn object_grows_to_free_space() {
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    let whole = heap.stats().unwrap().largest_free;
    let small = whole / 3;
    let at = heap.run(|tx| tx.alloc(small, 16, 1)).unwrap();
    mark(&heap, at, small, 5);
    let room = heap.stats().unwrap().largest_free - HEADER;
    let blocking = heap.run(|tx| tx.alloc(room - small - (32 << 10), 16, 1)).unwrap();
    let left = heap.stats().unwrap().largest_free - HEADER;
    assert!(left < 2 * small);
    let moved = heap.run(|tx| tx.resize(at, left, 16)).unwrap();
    assert!(is_marked(&heap, moved, small, 5));
    heap.run(|tx| tx.free(blocking)).unwrap();
    drop(heap);
    assert!(is_marked(&pool.heap(), moved, small, 5));
}

#[test]
fn invalid_object_is_not_resized() {
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    for size in [100, 5000, 100_000] {
        let [at, kept] =
            heap.run(|tx| Ok::<_, HeapError>([tx.alloc(size, 16, 1)?, tx.alloc(size, 16, 1)?])).unwrap();
        let none = Err(HeapError::NoObject { at });
        // Freed by the transaction itself, and by one before.
        for _ in 0..2 {
            let result = heap.run(|tx| {
                if heap.object(at).is_ok() {
                    tx.free(at)?;
                }
                assert_eq!(
                    (tx.resize(at, size, 16), tx.resize(at, 9 * size, 16)),
                    (none.clone(), none.clone())
                );
                assert_eq!(tx.usable_size(at), Err(HeapError::NoObject { at }));
                Ok::<_, HeapError>(())
            });
            assert_eq!((result, heap.objects().count()), (Ok(()), 1));
        }
        // Made and freed by the same one.
        heap.run(|tx| {
            let at = tx.alloc(size, 16, 2)?;
            tx.free(at)?;
            assert_eq!(tx.resize(at, size, 16), Err(HeapError::NoObject { at }));
            Ok::<_, HeapError>(())
        })
        .unwrap();
        heap.run(|tx| tx.free(kept)).unwrap();
    }
}

/// Objects that grow and shrink by odd steps, several in a transaction, until nothing fits any more.
#[test]
fn resizes_preserve_content() {
    let mut pool = Pool::new(LEN);
    let mut heap = pool.heap();
    let whole = heap.stats().unwrap().largest_free;
    let mut state = 11u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut objects, mut refused) = (Vec::<(PoolOffset, u64, u64)>::new(), 0);
    for step in 0..1500u64 {
        if step % 300 == 299 {
            drop(heap);
            heap = pool.heap();
        }
        let align = [16, 64, 4096][draw(3) as usize];
        let magnitude = 3 + draw(17);
        let size = 1 + draw(1 << magnitude);
        let number = draw(objects.len() as u64 + 1) as usize;
        let made = match objects.get(number).copied() {
            None => heap.run(|tx| tx.alloc(size, align, step % 3)),
            Some((at, old, seed)) => {
                // By way of another size in the same transaction.
                let between = 1 + draw(2 * old);
                let moved = heap.run(|tx| {
                    let at = tx.resize(at, between.max(old), 16)?;
                    tx.resize(at, size, align)
                });
                assert!(is_marked(
                    &heap,
                    *moved.as_ref().unwrap_or(&at),
                    old.min(if moved.is_ok() { size } else { old }),
                    seed
                ));
                moved
            }
        };
        match made {
            Ok(at) => {
                assert!(at.get().is_multiple_of(align));
                mark(&heap, at, size, step);
                match objects.get_mut(number) {
                    Some(object) => *object = (at, size, step),
                    None => objects.push((at, size, step)),
                }
            }
            Err(HeapError::OutOfSpace { .. }) => {
                refused += 1;
                let (at, ..) = objects.swap_remove(number % objects.len());
                heap.run(|tx| tx.free(at)).unwrap();
            }
            Err(error) => panic!("step {step}: {error}"),
        }
        assert!(objects.iter().all(|(at, size, seed)| is_marked(&heap, *at, *size, *seed)), "step {step}");
        assert_eq!(heap.objects().count(), objects.len());
    }
    assert!(refused > 20, "{refused}");
    for (at, ..) in objects {
        heap.run(|tx| tx.free(at)).unwrap();
    }
    heap.run(|tx| tx.alloc(whole - HEADER, 16, 1)).unwrap();
}
