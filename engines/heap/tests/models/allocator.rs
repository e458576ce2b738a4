//! A block that is freed while another thread still looks for what an old heap holds is handed out once.

use super::yielding::Yielding;
use crate::explore;
use lode_heap::{Heap, HeapError};
use lode_layout::{Geometry, PoolOffset};
use loom::sync::Arc;
use loom::thread;
use std::sync::Arc as StdArc;

const UUID: [u8; 16] = [5; 16];
/// Few blocks fit, so that all are soon handed out.
const SIZE: u64 = 256 << 10;
const BLOCK_SIZE: u64 = 1024;

fn open(medium: &StdArc<Yielding>, geometry: &Geometry, log_epoch: u64) -> Heap<StdArc<Yielding>> {
    let (heap, _) = Heap::open(StdArc::clone(medium), geometry, UUID, [log_epoch; 2]).unwrap();
    heap.log().begin_epoch().unwrap();
    heap
}

fn alloc(heap: &Heap<StdArc<Yielding>>) -> Result<PoolOffset, HeapError> {
    heap.run(|tx| tx.alloc(BLOCK_SIZE, 16, 1))
}

fn free(heap: &Heap<StdArc<Yielding>>, at: PoolOffset) {
    heap.run(|tx| -> Result<(), HeapError> { tx.free(at) }).unwrap();
}

#[test]
fn block_freed_during_scan_is_allocated_once() {
    explore(2, || {
        let geometry = Geometry::plan(SIZE).unwrap();
        let medium = StdArc::new(Yielding::new(SIZE));
        Heap::format(&medium, &geometry, &UUID, [1; 2]).unwrap();
        let heap = open(&medium, &geometry, 2);
        let old = alloc(&heap).unwrap();
        heap.close().unwrap();

        let heap = Arc::new(open(&medium, &geometry, 3));
        let other = Arc::clone(&heap);
        let other = thread::spawn(move || alloc(&other).unwrap());
        // Freed by this thread, since loom joins a thread before what that kept for itself is given back.
        free(&heap, old);
        let mut taken = vec![other.join().unwrap()];
        while let Ok(at) = alloc(&heap) {
            assert!(!taken.contains(&at), "{at} was handed out twice");
            taken.push(at);
        }
        assert!(taken.contains(&old), "the freed block was lost");
    });
}
