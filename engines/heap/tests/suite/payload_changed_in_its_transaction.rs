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

#[test]
fn large_transaction_needs_its_payload() {
    const LEN: u64 = 16 << 20;
    let medium = Arc::new(memory::persistent(LEN));
    let heap = heap::create(Arc::clone(&medium));
    let place = heap.run(|tx| tx.alloc(1 << 20, 16, 2)).unwrap();
    heap.log().checkpoint().unwrap();
    let content: Vec<u64> = (0..300).collect();
    let at = heap
        .run(|tx| {
            let at = tx.alloc_with(&content, 16, 1)?;
            // More entries than a ring holds, so the record goes on elsewhere.
            for word in 0..100_000 {
                tx.store8(place.plus(word * 8), word);
            }
            Ok::<_, HeapError>(at)
        })
        .unwrap();
    drop(heap);
    // A power cut in the drain: the record is durable, a line of the content is not.
    use lode_pmem::Medium;
    medium.store8(at.plus(640), 0);
    let (_, recovery) = heap::recover(Arc::clone(&medium), 3);
    assert_eq!(recovery.replayed, 0);
}
