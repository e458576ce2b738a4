//! An object of more than 1 KiB is written in place, and the record has its checksum. The transaction that made
//! it can store to it too, and still counts after a power cut behind its write-backs.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::HeapError;
use lode_testing::{heap, memory};
use std::sync::Arc;

#[test]
fn changed_payload_is_replayed() {
    const LEN: u64 = 4 << 20;
    let medium = Arc::new(memory::persistent(LEN));
    let heap = heap::create(Arc::clone(&medium));
    let content: Vec<u64> = (0..300).collect();
    let at = heap
        .run(|tx| {
            let at = tx.alloc_with(&content, 16, 1)?;
            tx.store8(at.plus(80), 7777);
            assert_eq!((tx.load8(at.plus(80)), tx.load8(at.plus(88))), (7777, 11));
            tx.set_root(at);
            Ok::<_, HeapError>(at)
        })
        .unwrap();
    // Lost without a checkpoint: the record is the last of its ring, and its write-backs are there.
    drop(heap);
    let (heap, recovery) = heap::recover(Arc::clone(&medium), 3);
    assert_eq!(recovery.replayed, 1);
    assert_eq!(heap.root(), Ok(at));
    assert_eq!(
        (
            heap.memory().reading(|memory| memory.load8(at.plus(80))).unwrap(),
            heap.memory().reading(|memory| memory.load8(at.plus(88))).unwrap()
        ),
        (7777, 11)
    );
}
