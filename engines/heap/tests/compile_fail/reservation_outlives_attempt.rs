use lode_heap::{Heap, HeapError};
use lode_pmem::Mapping;

fn kept_for_the_next_attempt(heap: &Heap<Mapping>) -> Result<(), HeapError> {
    let mut kept = None;
    heap.run_with(heap.reserve(64, 8, 1)?, |_, reserved| {
        kept = Some(reserved);
        Ok::<_, HeapError>(())
    })?;
    Ok(())
}

fn published_by_another_thread(heap: &Heap<Mapping>) -> Result<(), HeapError> {
    heap.run_with(heap.reserve(64, 8, 1)?, |_, reserved| {
        std::thread::scope(|threads| {
            threads.spawn(|| heap.run(|tx| tx.publish(reserved)));
        });
        Ok::<_, HeapError>(())
    })?;
    Ok(())
}

fn main() {}
