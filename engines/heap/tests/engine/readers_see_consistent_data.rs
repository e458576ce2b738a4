//! Readers outside of transactions take no lock, and still see what one transaction left, never half of two.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::Pool;
use lode_heap::{PCell, PMutex, PVec, Persist};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

lode_heap::brand!(Moments);

#[derive(Persist)]
#[persist(brand = Moments)]
#[repr(C)]
struct Root {
    wide: PCell<[u64; 32], Moments>,
    pair: PMutex<[PCell<u64, Moments>; 40], Moments>,
    vec: PVec<u64, Moments>,
}

#[test]
fn concurrent_reads_are_not_torn() {
    let mut pool = Pool::new(4 << 20);
    let heap = pool.typed::<Moments>();
    let root: &Root = heap
        .root_or_init(|_| {
            let pair = PMutex::new([(); 40].map(|()| PCell::new(0)));
            Ok(Root { wide: PCell::new([0; 32]), pair, vec: PVec::new() })
        })
        .unwrap();
    let done = AtomicBool::new(false);
    let all_equal = |values: &[u64]| values.iter().all(|value| *value == values[0]);
    thread::scope(|scope| {
        scope.spawn(|| {
            for step in 1..20_000u64 {
                heap.run(|tx| {
                    root.wide.set(tx, [step; 32])?;
                    for cell in root.pair.lock(tx)? {
                        cell.set(tx, step)?;
                    }
                    root.vec.truncate(tx, 0)?;
                    root.vec.extend_from_slice(tx, &[step; 40][..step as usize % 40 + 1])
                })
                .unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut seen = 0;
        while !done.load(Ordering::Relaxed) {
            let guard = heap.guard();
            assert!(all_equal(&root.wide.load(&guard).unwrap()));
            let cells = root.pair.read(&guard, |cells| cells.iter().map(|cell| cell.load(&guard)).collect());
            let cells: Vec<u64> = cells.unwrap();
            assert!(all_equal(&cells), "{cells:?}");
            let vec = root.vec.load_all(&guard).unwrap();
            assert!(vec.is_empty() || all_equal(&vec) && vec.len() as u64 == vec[0] % 40 + 1, "{vec:?}");
            seen += 1;
        }
        assert!(seen > 0);
    });
    let last = heap.run(|tx| Ok(root.wide.get(tx)?[31]));
    assert_eq!(last, Ok(19_999));
}
