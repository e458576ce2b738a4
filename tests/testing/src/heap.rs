//! Heaps on a medium without the headers of a pool.

use lode_heap::{Heap, Recovery};
use lode_layout::Geometry;
use lode_pmem::Medium;

const UUID: [u8; 16] = *b"a pool for tests";

/// Formats a heap that fills `medium`.
pub fn format<M: Medium>(medium: &M) {
    Heap::format(medium, &geometry(medium), &UUID, [1; 2]).unwrap();
}

/// Opens the heap on `medium`. `life` makes the log epoch: it differs from that of each earlier open, and is at least
/// 2.
pub fn open<M: Medium>(medium: M, life: u64) -> Heap<M> {
    recover(medium, life).0
}

/// Opens the heap as [`open`] does, and returns the result of its recovery, too.
pub fn recover<M: Medium>(medium: M, life: u64) -> (Heap<M>, Recovery) {
    let geometry = geometry(&medium);
    Heap::open(medium, &geometry, UUID, [life; 2]).unwrap()
}

/// Formats a heap that fills `medium`, and opens it.
pub fn create<M: Medium>(medium: M) -> Heap<M> {
    format(&medium);
    open(medium, 2)
}

fn geometry<M: Medium>(medium: &M) -> Geometry {
    Geometry::plan(medium.memory().len()).unwrap()
}
