use lode_heap::{PBox, TypedHeap};

lode_heap::brand!(Mine);

fn outlives<'a>(heap: &'a TypedHeap<Mine>, pointer: &'a PBox<u64, Mine>) -> Option<&'a u64> {
    let guard = heap.guard();
    pointer.load(&guard).unwrap()
}

fn main() {}
