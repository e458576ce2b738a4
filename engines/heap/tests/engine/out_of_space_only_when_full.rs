//! A heap refuses to allocate only when the space is not there: what was freed, whatever its size and type, and
//! wherever it waits, is found before.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::{Medium, Pool};
use lode_heap::{Heap, HeapError};
use lode_layout::PoolOffset;

const LEN: u64 = 2 << 20;
const SIZES: [u64; 8] = [1, 40, 100, 1000, 1500, 5000, 20_000, 40_000];

/// Allocates `count` objects in each transaction until one is refused; returns those that there are then.
fn fill(heap: &Heap<Medium>, size: u64, type_number: u64, count: usize) -> Vec<PoolOffset> {
    let mut objects = Vec::new();
    loop {
        let made = heap.run(|tx| (0..count).map(|_| tx.alloc(size, 16, type_number)).collect());
        match made {
            Ok(made) => objects.extend::<Vec<_>>(made),
            Err(HeapError::OutOfSpace { .. }) => return objects,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Frees all objects, in an order that `seed` makes, some in each transaction.
fn free(heap: &Heap<Medium>, mut objects: Vec<PoolOffset>, seed: u64) {
    objects.sort_by_key(|at| (at.get() ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    for part in objects.chunks(1 + seed as usize % 50) {
        heap.run(|tx| part.iter().try_for_each(|at| tx.free(*at))).unwrap();
    }
}

/// Objects of each size that an empty pool has room for.
fn room() -> [usize; 8] {
    SIZES.map(|size| fill(&Pool::new(LEN).heap(), size, 0, 1).len())
}

#[test]
fn first_out_of_space_means_full() {
    let room = room();
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    let whole = heap.stats().unwrap().largest_free - 64;
    for round in 0..24 {
        let (size, count) = (SIZES[round % 8], 1 + round % 5);
        let mut objects = fill(&heap, size, round as u64 % 3, count);
        let first = objects.len();
        objects.extend(fill(&heap, size, round as u64 % 3, 1));
        let all = objects.len();
        assert!(
            all < first + count,
            "{count} objects of {size} bytes were refused at {first}, and {all} fit"
        );
        // What was made before all was reclaimed may lie so that a chunk here and there is too short for more.
        let fresh = room[round % 8];
        assert!(
            all * 10 >= fresh * 9,
            "{all} objects of {size} bytes in round {round}, {fresh} in a new pool"
        );
        free(&heap, objects, round as u64);
    }
    assert_eq!(fill(&heap, whole, 3, 1).len(), 1, "an object of all the space");
}

/// A closure that pins itself can't have what its own thread freed last; once it is over, it can.
#[test]
fn pin_in_closure_does_not_starve_it() {
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    let whole = heap.stats().unwrap().largest_free - 64;
    for size in [40, 5000, whole] {
        free(&heap, fill(&heap, size, 1, 1), 7);
        let made = heap.run(|tx| {
            let _pin = heap.pin();
            tx.alloc(whole, 16, 2)
        });
        heap.run(|tx| tx.free(made.clone()?)).unwrap();
    }
}

/// Half of what is free may be changed at once, that included which was freed just before.
#[test]
fn large_transaction_uses_freed_space() {
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    let whole = heap.stats().unwrap().largest_free - 64;
    let target = heap.run(|tx| tx.alloc(whole / 4, 16, 1)).unwrap();
    let words = vec![7; (whole / 4 / 8) as usize];
    for size in [40, 5000, whole / 2] {
        free(&heap, fill(&heap, size, 1, 1), 9);
        heap.run(|tx| {
            tx.store_words(target, &words);
            Ok::<_, HeapError>(())
        })
        .unwrap();
    }
}
