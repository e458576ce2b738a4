//! A heap that fills a simulated medium.

use crate::error::HeapError;
use crate::heap::Heap;
use lode_layout::Geometry;
use lode_sim::SimMedium;
use std::sync::Arc;

/// Formats the heap and opens it for the first time, as life 2 of the log.
pub fn format_heap(
    medium: Arc<SimMedium>,
    size: u64,
    uuid: [u8; 16],
) -> Result<Heap<Arc<SimMedium>>, HeapError> {
    Heap::format(&medium, &geometry(size), &uuid, [1, 1])?;
    open_heap(medium, size, uuid, 2)
}

/// Opens the heap. Each opening of an exploration is a `life` of its own, whose number no other has.
pub fn open_heap(
    medium: Arc<SimMedium>,
    size: u64,
    uuid: [u8; 16],
    life: u64,
) -> Result<Heap<Arc<SimMedium>>, HeapError> {
    Ok(Heap::open(medium, &geometry(size), uuid, [life; 2])?.0)
}

fn geometry(size: u64) -> Geometry {
    Geometry::plan(size).expect("a size")
}
