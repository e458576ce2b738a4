//! An object of more than 1 KiB is written in place, and the record has its checksum. The transaction that made
//! it can store to it too, and still counts after a power cut behind its write-backs.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::{HeapError, PBox, PCell, Persist, TypedHeap};
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

lode_heap::brand!(Large);

/// An object larger than any block, with cells at both ends.
#[derive(Persist)]
#[persist(brand = Large)]
#[repr(C)]
struct Page {
    first: PCell<u64, Large>,
    content: [[u64; 1024]; 12],
    last: PCell<u64, Large>,
}

#[derive(Persist)]
#[persist(brand = Large)]
#[repr(C)]
struct Book {
    page: PBox<Page, Large>,
}

#[test]
fn large_typed_objects_are_replayed_and_freed() {
    let page = |value| Page { first: PCell::new(1), content: [[value; 1024]; 12], last: PCell::new(2) };
    let medium = Arc::new(memory::persistent(4 << 20));
    let pool = TypedHeap::<Large, _>::new(heap::create(Arc::clone(&medium)));
    let book = pool.root_or_init(|_| Ok(Book { page: PBox::null() })).unwrap();
    for value in 0..40 {
        // Each takes the place of the one before: the space is used again.
        pool.run(|tx| {
            let page = tx.alloc(page(value))?;
            assert_eq!((page.content[11][1023], page.last.get(tx)?), (value, 2));
            page.last.set(tx, value + 100)?;
            assert_eq!(page.last.get(tx)?, value + 100);
            book.page.set(tx, page)
        })
        .unwrap();
    }
    // Lost without a checkpoint.
    drop(pool);
    let (heap, recovery) = heap::recover(Arc::clone(&medium), 3);
    assert!(recovery.replayed > 0);
    let pool = TypedHeap::<Large, _>::new(heap);
    let (book, guard) = (pool.root::<Book>().unwrap().unwrap(), pool.guard());
    let page = book.page.load(&guard).unwrap().unwrap();
    assert!(page.content.iter().flatten().all(|value| *value == 39));
    assert_eq!((page.first.load(&guard), page.last.load(&guard)), (Ok(1), Ok(139)));
    drop(guard);
    pool.run(|tx| book.page.take(tx).map(drop)).unwrap();
    assert_eq!(pool.objects().count(), 3, "the root, the root object and its types");
}
