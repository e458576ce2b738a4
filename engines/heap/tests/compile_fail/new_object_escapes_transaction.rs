use lode_heap::{HeapError, PBox, TypedHeap};

lode_heap::brand!(Mine);

fn escapes(heap: &TypedHeap<Mine>) {
    let _owned = heap.run(|tx| tx.alloc(1u64));
}

fn reference_escapes<'a>(heap: &'a TypedHeap<Mine>, pointer: &'a PBox<u64, Mine>) -> Result<Option<&'a u64>, HeapError> {
    heap.run(|tx| pointer.get(tx))
}

fn reference_is_kept(heap: &TypedHeap<Mine>, pointer: &PBox<u64, Mine>) -> Result<(), HeapError> {
    let mut kept = None;
    heap.run(|tx| {
        kept = pointer.get(tx)?;
        Ok(())
    })
}

fn main() {}
