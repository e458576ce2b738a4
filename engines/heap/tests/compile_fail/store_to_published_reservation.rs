use lode_heap::{Heap, HeapError};
use lode_pmem::Mapping;

fn stored_too_late(heap: &Heap<Mapping>) -> Result<(), HeapError> {
    let reservation = heap.reserve(4000, 8, 1)?;
    heap.run_with(reservation, |tx, reserved| {
        tx.publish(reserved)?;
        reserved.store(tx, 0, b"past the checksum")
    })?;
    reservation.store(0, b"past the log")
}

fn main() {}
