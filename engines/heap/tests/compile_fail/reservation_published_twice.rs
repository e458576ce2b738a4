use lode_heap::{Heap, HeapError};
use lode_pmem::Mapping;

fn twice(heap: &Heap<Mapping>) -> Result<(), HeapError> {
    heap.run_with(heap.reserve(64, 8, 1)?, |tx, reserved| {
        tx.publish(reserved)?;
        tx.publish(reserved).map(drop)
    })?;
    Ok(())
}

fn main() {}
