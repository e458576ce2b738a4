//! Typed data in transactions of many changes.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::Pool;
use lode_heap::{PCell, PVec, Persist};

lode_heap::brand!(Long);

#[derive(Persist)]
#[persist(brand = Long)]
#[repr(C)]
struct Root {
    count: PCell<u64, Long>,
    list: PVec<u64, Long>,
}

/// A cell that is set again and again, and a vector that grows by one, in one transaction. Each step reads what the one before
/// it stored.
#[test]
fn long_typed_transaction_reads_its_changes() {
    const STEPS: u64 = 30_000;
    let mut pool = Pool::new(16 << 20);
    let heap = pool.typed::<Long>();
    let root = heap.root_or_init(|_| Ok(Root { count: PCell::new(0), list: PVec::new() })).unwrap();
    heap.run(|tx| {
        for step in 0..STEPS {
            assert_eq!(root.count.get(tx)?, step);
            root.count.set(tx, step + 1)?;
            root.list.push(tx, step)?;
        }
        Ok(())
    })
    .unwrap();
    let guard = heap.guard();
    assert_eq!(root.count.load(&guard), Ok(STEPS));
    assert_eq!(root.list.load_all(&guard), Ok((0..STEPS).collect()));
}
