//! A typed pool that is full refuses, and what was freed before can be used by the next transaction.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::Pool;
use lode_heap::{HeapError, PBox, PCell, PVec, Persist};

lode_heap::brand!(Full);

#[derive(Persist)]
#[persist(brand = Full)]
#[repr(C)]
struct Link {
    payload: [u64; 20],
    next: PBox<Link, Full>,
}

#[derive(Persist)]
#[persist(brand = Full)]
#[repr(C)]
struct Root {
    count: PCell<u64, Full>,
    list: PBox<Link, Full>,
    bytes: PVec<u8, Full>,
}

#[test]
fn freed_space_is_reused_at_once() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Full>();
    let init = || Root { count: PCell::new(0), list: PBox::null(), bytes: PVec::new() };
    let root = heap.root_or_init(|_| Ok(init())).unwrap();
    // What one object can have of the empty pool.
    let whole = vec![1; heap.stats().unwrap().largest_free as usize - 64];
    let push = || {
        heap.run(|tx| {
            let link = tx.alloc(Link { payload: [7; 20], next: PBox::null() })?;
            if let Some(list) = root.list.take(tx)? {
                link.next.set(tx, list)?;
            }
            root.list.set(tx, link)?;
            root.count.set(tx, root.count.get(tx)? + 1)
        })
    };
    let pop = || {
        heap.run(|tx| {
            let Some(link) = root.list.take(tx)? else { return Ok(false) };
            if let Some(next) = link.next.take(tx)? {
                root.list.set(tx, next)?;
            }
            root.count.set(tx, root.count.get(tx)? - 1)?;
            link.free()?;
            Ok(true)
        })
    };
    let mut counts = Vec::new();
    for _round in 0..4 {
        let refused = loop {
            if let Err(error) = push() {
                break error;
            }
        };
        assert!(matches!(refused, HeapError::OutOfSpace { .. }), "{refused}");
        counts.push(root.count.load(&heap.guard()).unwrap());
        while pop().unwrap() {}
        // One object of another kind takes what all the links had.
        heap.run(|tx| root.bytes.extend_from_slice(tx, &whole)).unwrap();
        assert_eq!(root.bytes.load_len(&heap.guard()), whole.len() as u64);
        heap.run(|tx| root.bytes.clear(tx)).unwrap();
        assert_eq!(heap.objects().count(), 3, "the root, the root object and its types");
    }
    assert!(counts[0] > 2000 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}

#[test]
fn freed_space_waits_for_older_guard() {
    lode_heap::brand!(Guarded);
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Guarded>();
    let root = heap.root_or_init(|_| Ok(PBox::<u64, Guarded>::null())).unwrap();
    heap.run(|tx| root.set(tx, tx.alloc(0)?)).unwrap();
    let guard = heap.guard();
    let old = root.load(&guard).unwrap().expect("set above");
    for value in 1..500 {
        heap.run(|tx| root.set(tx, tx.alloc(value)?)).unwrap();
        assert_eq!(*old, 0, "after {value}");
    }
    drop(guard);
    assert_eq!(root.load(&heap.guard()).unwrap(), Some(&499));
}
