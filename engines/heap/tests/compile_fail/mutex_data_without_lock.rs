use lode_heap::{HeapError, PMutex, TypedHeap};

lode_heap::brand!(Mine);

fn unlocked(mutex: &PMutex<u64, Mine>) -> u64 {
    mutex.value
}

fn kept<'a>(heap: &'a TypedHeap<Mine>, mutex: &'a PMutex<u64, Mine>) -> Result<&'a u64, HeapError> {
    let guard = heap.guard();
    mutex.read(&guard, |value| Ok(value))
}

fn main() {}
