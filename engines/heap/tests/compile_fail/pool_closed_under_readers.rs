use lode_heap::{Heap, HeapError, PCell, TypedHeap};
use lode_pmem::Mapping;

lode_heap::brand!(Mine);

fn closed_under_a_pin(heap: Heap<Mapping>) -> Result<(), HeapError> {
    let pin = heap.pin();
    heap.close()?;
    drop(pin);
    Ok(())
}

fn closed_under_a_reservation(heap: Heap<Mapping>) -> Result<(), HeapError> {
    let reservation = heap.reserve(64, 8, 1)?;
    heap.close()?;
    reservation.store(0, b"into a closed pool")
}

fn closed_under_its_root(heap: TypedHeap<Mine>) -> Result<(), HeapError> {
    let root = heap.root::<PCell<u64, Mine>>()?;
    heap.close()?;
    drop(root);
    Ok(())
}

fn main() {}
