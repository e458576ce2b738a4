//! A snapshot that owns its heap shows one commit in any thread, and is closed once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::{HeapError, OwnedSnapshot};
use lode_testing::{heap, memory};
use std::sync::Arc;
use std::thread;

#[test]
fn owned_snapshot_outlives_function_that_opened_it() {
    let heap = Arc::new(heap::create(Arc::new(memory::persistent(4 << 20))));
    let store = |value| {
        heap.run(|tx| {
            let at = match tx.root()? {
                at if at.is_null() => tx.alloc_zeroed(64, 64, 7)?,
                at => at,
            };
            tx.set_root(at);
            tx.lock(at)?;
            tx.store8(at, value);
            Ok::<_, HeapError>(at)
        })
    };
    store(1).unwrap();
    let snapshot = OwnedSnapshot::open(Arc::clone(&heap)).unwrap();
    store(2).unwrap();
    let seen = thread::spawn(move || {
        let root = snapshot.get().root().unwrap();
        let read = || snapshot.get().try_reading(|view| Ok::<_, HeapError>(view.load8(root)));
        // A snapshot that was lent and dropped is still open.
        [read().unwrap(), read().unwrap()]
    });
    assert_eq!(seen.join().unwrap(), [1, 1]);
    assert_eq!(heap.snapshot_stats().open, 0, "the thread dropped it");
    let (first, second) = (OwnedSnapshot::open(&*heap).unwrap(), OwnedSnapshot::open(&*heap).unwrap());
    assert_eq!(heap.snapshot_stats().open, 2);
    drop((first, second));
    assert_eq!(heap.snapshot_stats().open, 0);
}
