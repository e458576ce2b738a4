//! Several pools of one brand can be open, and what belongs to one is refused by transactions and guards of another.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::{Medium, Pool};
use lode_heap::{HeapError, PBox, PCell, PDeque, PMutex, PString, PVec, Persist, TypedHeap, TypedTx};
use std::panic::{AssertUnwindSafe, catch_unwind};

lode_heap::brand!(Twin);

#[derive(Persist)]
#[persist(brand = Twin)]
#[repr(C)]
struct Root {
    small: PCell<u32, Twin>,
    large: PCell<[u64; 3], Twin>,
    link: PBox<PCell<u64, Twin>, Twin>,
    vector: PVec<u8, Twin>,
    queue: PDeque<u8, Twin>,
    text: PString<Twin>,
    lock: PMutex<PCell<u64, Twin>, Twin>,
}

fn root(heap: &TypedHeap<Twin, Medium>, number: u32) -> &Root {
    let init = || Root {
        small: PCell::new(number),
        large: PCell::new([number.into(); 3]),
        link: PBox::null(),
        vector: PVec::new(),
        queue: PDeque::new(),
        text: PString::new(),
        lock: PMutex::new(PCell::new(number.into())),
    };
    let root = heap.root_or_init(|_| Ok(init())).unwrap();
    heap.run(|tx| {
        root.link.set(tx, tx.alloc(PCell::new(number.into()))?)?;
        root.vector.extend_from_slice(tx, &[number as u8; 4])?;
        root.queue.push_back(tx, number as u8)?;
        root.text.set(tx, &number.to_string())
    })
    .unwrap();
    root
}

#[track_caller]
fn is_refused<T>(result: Result<T, HeapError>) {
    assert_eq!(result.err(), Some(HeapError::OtherPool));
}

fn refuses_all(root: &Root, tx: &TypedTx<'_, Twin, Medium>) -> Result<(), HeapError> {
    is_refused(root.small.get(tx));
    is_refused(root.small.get_unvalidated(tx));
    is_refused(root.small.set(tx, 9));
    is_refused(root.large.get(tx));
    is_refused(root.large.set(tx, [9; 3]));
    is_refused(root.link.get(tx));
    is_refused(root.link.take(tx));
    is_refused(root.link.set(tx, tx.alloc(PCell::new(9))?));
    is_refused(root.vector.len(tx));
    is_refused(root.vector.get(tx, 0));
    is_refused(root.vector.set(tx, 0, 9));
    is_refused(root.vector.push(tx, 9));
    is_refused(root.vector.pop(tx));
    is_refused(root.vector.truncate(tx, 0));
    is_refused(root.vector.clear(tx));
    is_refused(root.vector.to_vec(tx));
    is_refused(root.queue.len(tx));
    is_refused(root.queue.get(tx, 0));
    is_refused(root.queue.push_front(tx, 9));
    is_refused(root.queue.pop_front(tx));
    is_refused(root.queue.clear(tx));
    is_refused(root.text.get(tx));
    is_refused(root.text.set(tx, "9"));
    is_refused(root.text.push_str(tx, "9"));
    is_refused(root.lock.lock(tx));
    Ok(())
}

#[test]
fn things_of_another_pool_are_refused() {
    let mut pools = [Pool::new(1 << 20), Pool::new(1 << 20)];
    let [one, two] = pools.each_mut().map(|pool| pool.typed::<Twin>());
    let (first, second) = (root(&one, 1), root(&two, 2));
    for (of_other, heap) in [(first, &two), (second, &one)] {
        heap.run(|tx| refuses_all(of_other, tx)).unwrap();
        let guard = heap.guard();
        is_refused(of_other.large.load(&guard));
        is_refused(of_other.link.load(&guard));
        is_refused(of_other.vector.load(&guard, 0));
        is_refused(of_other.vector.load_all(&guard));
        is_refused(of_other.queue.load(&guard, 0));
        is_refused(of_other.queue.load_all(&guard));
        is_refused(of_other.text.load(&guard));
        is_refused(of_other.lock.read(&guard, |_| Ok(())));
        let panics = |read: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
        panics(&|| assert_eq!(of_other.vector.load_len(&guard), 4));
        panics(&|| assert_eq!(of_other.queue.load_len(&guard), 1));
    }
    // An object that a transaction of one pool owns.
    let moved = one.run(|tx| two.run(|inner| first.link.set(tx, inner.alloc(PCell::new(9))?)));
    is_refused(moved);
    for (root, heap, number) in [(first, &one, 1), (second, &two, 2)] {
        let guard = heap.guard();
        assert_eq!((root.small.load(&guard), root.large.load(&guard)), (Ok(number), Ok([number.into(); 3])));
        assert_eq!(root.link.load(&guard).unwrap().unwrap().load(&guard), Ok(number.into()));
        assert_eq!(root.vector.load_all(&guard), Ok(vec![number as u8; 4]));
        assert_eq!(root.queue.load_all(&guard), Ok(vec![number as u8]));
        assert_eq!(root.text.load(&guard), Ok(number.to_string()));
        // The root, the root object and its types, what the pointer leads to, and three buffers.
        assert_eq!(heap.objects().count(), 7);
    }
}
