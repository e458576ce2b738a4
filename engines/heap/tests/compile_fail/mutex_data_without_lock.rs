use lode_heap::{PMutex, TypedHeap};

lode_heap::brand!(Mine);

fn unlocked(mutex: &PMutex<u64, Mine>) -> u64 {
    mutex.value
}

fn kept<'a>(heap: &'a TypedHeap<Mine>, mutex: &'a PMutex<u64, Mine>) -> &'a u64 {
    let guard = heap.guard();
    mutex.read(&guard, |value| value)
}

fn main() {}
