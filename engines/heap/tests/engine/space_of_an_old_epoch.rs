//! Recovery repeats records until their log epoch has ended. Until then the space to which they lead is not used, although it is
//! free for the transactions after them.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::{Heap, HeapError};
use lode_layout::PoolOffset;
use lode_pmem::Mapping;
use lode_testing::{heap, memory};
use std::sync::Arc;

const LEN: u64 = 16 << 20;
/// More words than a record has room for, so that it continues in free space.
const WORDS: u64 = 100_000;

fn filled(medium: &Arc<Mapping>) -> (Heap<Arc<Mapping>>, PoolOffset) {
    let heap = heap::create(Arc::clone(medium));
    let object = heap.run(|tx| tx.alloc_zeroed(WORDS * 8, 16, 1)).unwrap();
    heap.log().checkpoint().unwrap();
    let stored = heap.run(|tx| {
        (0..WORDS).for_each(|word| tx.store8(object.plus(word * 8), word + 1));
        Ok::<_, HeapError>(())
    });
    stored.unwrap();
    (heap, object)
}

/// Stores to most of the free space, in a transaction that then gives up.
fn fill_and_give_up(heap: &Heap<Arc<Mapping>>, size: u64) {
    let content = vec![0xee; size as usize / 8];
    let given_up = HeapError::NoObject { at: PoolOffset::NULL };
    let filled: Result<(), HeapError> = heap.run(|tx| {
        for _ in 0..LEN / 4 / size {
            tx.alloc_with(&content, 64, 2)?;
        }
        Err(given_up.clone())
    });
    assert_eq!(filled, Err(given_up));
}

#[test]
fn free_space_is_used_only_after_the_old_epoch() {
    for size in [2 << 10, 40 << 10] {
        let medium = Arc::new(memory::persistent(LEN));
        let (heap, object) = filled(&medium);
        // Lost without a checkpoint.
        drop(heap);
        for life in 3..6 {
            let (heap, recovery) = heap::recover(Arc::clone(&medium), life);
            assert_eq!(recovery.suspect_records, 0);
            let is_whole = |word| heap.memory().reading(|memory| memory.load8(object.plus(word * 8)));
            assert!((0..WORDS).all(|word| is_whole(word) == Ok(word + 1)), "{size} bytes, life {life}");
            fill_and_give_up(&heap, size);
            let slot = heap.memory().reading(|memory| lode_redo::slots::read(memory, heap.log().uuid()));
            // A power cut may lose the write-backs of a record whose entries lay in that space, if its epoch still counts.
            assert_eq!(slot.unwrap().unwrap().log_epoch, [life; 2], "{size} bytes");
        }
    }
}

/// Reading ends no epoch: the records are replayed again.
#[test]
fn opening_alone_ends_no_epoch() {
    let medium = Arc::new(memory::persistent(LEN));
    let (heap, object) = filled(&medium);
    drop(heap);
    for life in [3, 4] {
        let (heap, recovery) = heap::recover(Arc::clone(&medium), life);
        assert_eq!(recovery.replayed, 1);
        heap.snapshot().unwrap();
        assert_eq!(heap.memory().reading(|memory| memory.load8(object)), Ok(1));
    }
    let (heap, _) = heap::recover(Arc::clone(&medium), 5);
    heap.log().begin_epoch().unwrap();
    drop(heap);
    assert_eq!(heap::recover(medium, 6).1.replayed, 0);
}
