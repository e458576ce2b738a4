//! A store to lost memory of a pool is an error, and no allocation returns lost memory.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::{Heap, HeapError, InDoubtCause};
use lode_layout::{CHUNK, Geometry, PoolOffset};
use lode_pmem::{Fault, FaultKind, Mapping, Medium as _};
use lode_testing::memory;
use std::fs::File;
use std::sync::Arc;

const LEN: u64 = 1 << 20;
const PAGE: u64 = 4096;
const UUID: [u8; 16] = [5; 16];

type Medium = Arc<Mapping>;

/// A pool in a file, by the code of persistent memory. Cutting the file short loses its end.
fn pool() -> (File, Medium, Geometry) {
    let (file, medium) = memory::file(LEN);
    let (medium, geometry) = (Arc::new(medium), Geometry::plan(LEN).unwrap());
    Heap::format(&medium, &geometry, &UUID, [1, 1]).unwrap();
    (file, medium, geometry)
}

#[test]
fn store_to_lost_object_is_not_acknowledged() {
    let (file, medium, geometry) = pool();
    let (heap, _) = Heap::open(Arc::clone(&medium), &geometry, UUID, [2, 2]).unwrap();
    let at = heap.run(|tx| tx.alloc(64, 8, 1)).unwrap();
    let page = at.get() / PAGE * PAGE;
    file.set_len(page).unwrap();
    let stored = heap.run(|tx| {
        tx.store8(at, 7);
        Ok::<_, HeapError>(())
    });
    let fault = Fault { kind: FaultKind::Poison, at: PoolOffset::new(page), len: PAGE };
    assert_eq!(stored, Err(HeapError::InDoubt(InDoubtCause::WriteBack(fault))));
    // The record is all there is of it, so no checkpoint may free it: the heap takes nothing more.
    assert_eq!(heap.run(|tx| tx.alloc(64, 8, 1)), Err(HeapError::Poisoned));
    drop(heap);
    let reopened = Heap::open(medium, &geometry, UUID, [3, 3]).map(|(_, recovery)| recovery);
    assert_eq!(reopened.err(), Some(HeapError::Fault(fault)));
}

/// Post-mortem. When the header of a superblock was lost before the space was scanned, its other chunks counted as free,
/// and new objects were stored over the old ones. Chunks whose descriptors were lost counted as free, too.
#[test]
fn space_behind_lost_header_is_not_allocated() {
    // A superblock of this size has four chunks.
    const SIZE: u64 = 1280;
    for loses_descriptors in [false, true] {
        let (file, medium, geometry) = pool();
        let (heap, _) = Heap::open(Arc::clone(&medium), &geometry, UUID, [2, 2]).unwrap();
        let head = heap.run(|tx| tx.alloc(SIZE, 8, 1)).unwrap().get() / CHUNK * CHUNK;
        heap.close().unwrap();
        let table = geometry.extents()[0].start.get();
        let lost = if loses_descriptors { table } else { head };
        file.set_len(lost).unwrap();
        assert!(medium.memory().reading(|memory| memory.load8(PoolOffset::new(lost))).is_err());
        file.set_len(LEN).unwrap();
        let (heap, _) = Heap::open(medium, &geometry, UUID, [3, 3]).unwrap();
        let mut allocated = 0;
        let refused = loop {
            match heap.run(|tx| tx.alloc(64, 8, 1)).map(PoolOffset::get) {
                Ok(at) => {
                    assert!(!(head..head + 4 * CHUNK).contains(&at), "{at:#x} is in the lost superblock")
                }
                Err(error) => break error,
            }
            allocated += 1;
        };
        assert!(matches!(refused, HeapError::OutOfSpace { .. }), "{refused}");
        assert_eq!(allocated == 0, loses_descriptors, "{allocated} objects");
    }
}

#[test]
fn known_lost_space_is_not_allocated() {
    // In the superblock of the first object, and in free space.
    for (size, behind) in [(64, 2 * PAGE), (64, 128 << 10), (40_000, 128 << 10)] {
        let (file, medium, geometry) = pool();
        let (heap, _) = Heap::open(Arc::clone(&medium), &geometry, UUID, [2, 2]).unwrap();
        let alloc = || heap.run(|tx| tx.alloc(size, 8, 1)).map(PoolOffset::get);
        let first = alloc().unwrap();
        let lost = (first + behind) / PAGE * PAGE;
        file.set_len(lost).unwrap();
        assert!(medium.memory().reading(|memory| memory.load8(PoolOffset::new(lost))).is_err());
        // All that has been seen to be lost is one page.
        file.set_len(LEN).unwrap();
        let (mut below, mut above) = (0, 0);
        let refused = loop {
            match alloc() {
                Ok(at) if at + size <= lost => below += 1,
                Ok(at) => {
                    assert!(at >= lost + PAGE, "{size} bytes at {at:#x}, where {lost:#x} is lost");
                    above += 1;
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, HeapError::OutOfSpace { .. }), "{refused}");
        assert!(below > 0 && above > 0, "{below} {above}");
    }
}

#[test]
fn lost_superblock_header_does_not_block_allocation() {
    let (file, medium, geometry) = pool();
    let (heap, _) = Heap::open(Arc::clone(&medium), &geometry, UUID, [2, 2]).unwrap();
    let large = heap.run(|tx| tx.alloc(64 << 10, 8, 1)).unwrap();
    let small = heap.run(|tx| tx.alloc(48, 8, 1)).unwrap();
    assert!(large < small);
    heap.run(|tx| tx.free(large)).unwrap();
    heap.close().unwrap();
    let (heap, _) = Heap::open(Arc::clone(&medium), &geometry, UUID, [3, 3]).unwrap();
    file.set_len(small.get() / PAGE * PAGE).unwrap();
    let at = heap.run(|tx| tx.alloc(48, 8, 1)).unwrap();
    assert!(at < small, "in what was freed, and not in what is lost: {at}");
}
