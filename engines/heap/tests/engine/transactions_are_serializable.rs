//! Transactions are serializable, whatever they read through the typed interface.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::{Medium, Pool};
use lode_heap::{HeapError, PBox, PCell, PString, PVec, Persist, TypedHeap, TypedTx};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

lode_heap::brand!(Cells);

const THREADS: usize = 4;
const CELLS: usize = 16;
const START: u64 = 1000;

type Heap = TypedHeap<Cells, Medium>;
type Tx<'a> = TypedTx<'a, Cells, Medium>;

#[derive(Persist)]
#[persist(brand = Cells)]
#[repr(C)]
struct Node {
    value: PCell<u64, Cells>,
    next: PBox<Node, Cells>,
}

#[derive(Persist)]
#[persist(brand = Cells)]
#[repr(C)]
struct Root {
    cells: [PCell<u64, Cells>; CELLS],
    large: [PCell<[u64; 4], Cells>; 2],
    list: PVec<u64, Cells>,
    text: PString<Cells>,
    newest: PBox<Node, Cells>,
}

fn root(heap: &Heap) -> &Root {
    heap.root_or_init(|_| {
        Ok(Root {
            cells: [(); CELLS].map(|()| PCell::new(START)),
            large: [(); 2].map(|()| PCell::new([1; 4])),
            list: PVec::new(),
            text: PString::new(),
            newest: PBox::null(),
        })
    })
    .unwrap()
}

/// One heap at a time is open under the brand.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers that are as good as random.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

fn in_threads(each: impl Fn(usize, &mut Draws) + Sync) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let each = &each;
            scope.spawn(move || each(thread, &mut Draws(thread as u64)));
        }
    });
}

fn sum(root: &Root, tx: &Tx<'_>) -> Result<u64, HeapError> {
    root.cells.iter().try_fold(0, |sum, cell| Ok(sum + cell.get(tx)?))
}

#[test]
fn cells_keep_their_total() {
    let _turn = turn();
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Cells>();
    let root = root(&heap);
    in_threads(|_, rng| {
        for step in 0..1_000 {
            let [from, to] = [rng.below(CELLS), rng.below(CELLS)].map(|cell| &root.cells[cell]);
            heap.run(|tx| {
                let left = from.get(tx)?;
                let amount = left.min(7);
                from.set(tx, left - amount)?;
                to.set(tx, to.get(tx)? + amount)
            })
            .unwrap();
            if step % 10 == 0 {
                // Each attempt sees one state.
                heap.run(|tx| {
                    assert_eq!(sum(root, tx)?, CELLS as u64 * START);
                    Ok(())
                })
                .unwrap();
            }
        }
    });
    assert_eq!(heap.run(|tx| sum(root, tx)), Ok(CELLS as u64 * START));
}

#[test]
fn write_skew_of_cells_is_refused() {
    let _turn = turn();
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Cells>();
    let root = root(&heap);
    in_threads(|thread, _| {
        for _ in 0..2_000 {
            heap.run(|tx| {
                let both = [root.large[0].get(tx)?, root.large[1].get(tx)?];
                assert_ne!(both, [[0; 4]; 2]);
                let mine = thread % 2;
                let next = if both[mine] == [0; 4] { 1 } else { 1 - both[1 - mine][0] };
                root.large[mine].set(tx, [next; 4])
            })
            .unwrap();
        }
    });
}

/// Each append follows what the transaction read of the list: its length, all of it, its last element, or a text and a
/// linked list that go with it.
#[test]
fn appends_follow_what_was_read() {
    let _turn = turn();
    let mut pool = Pool::new(4 << 20);
    let heap = pool.typed::<Cells>();
    let root = root(&heap);
    const APPENDS: u64 = 150;
    in_threads(|thread, rng| {
        for _ in 0..APPENDS {
            let way = (thread + rng.below(2)) % 4;
            heap.run(|tx| {
                let len = match way {
                    0 => root.list.len(tx)?,
                    1 => {
                        let all = root.list.to_vec(tx)?;
                        assert!(all.iter().copied().eq(0..all.len() as u64));
                        all.len() as u64
                    }
                    2 => root.text.get(tx)?.len() as u64,
                    _ => root.newest.get(tx)?.map_or(Ok(0), |node| node.value.get(tx))?,
                };
                assert_eq!(root.list.get(tx, len)?, None);
                if let Some(last) = len.checked_sub(1) {
                    assert_eq!(root.list.get(tx, last)?, Some(last));
                }
                root.list.push(tx, len)?;
                root.text.push_str(tx, "x")?;
                let node = tx.alloc(Node { value: PCell::new(len + 1), next: PBox::null() })?;
                if let Some(older) = root.newest.take(tx)? {
                    node.next.set(tx, older)?;
                }
                root.newest.set(tx, node)
            })
            .unwrap();
        }
    });
    let all = heap.run(|tx| root.list.to_vec(tx)).unwrap();
    assert_eq!(all, (0..APPENDS * THREADS as u64).collect::<Vec<_>>());
}

/// A read that asks for no validation restarts nothing; one of another element, or another cell, neither.
#[test]
fn changes_beside_the_read_restart_nobody() {
    let _turn = turn();
    let mut pool = Pool::new(4 << 20);
    let heap = pool.typed::<Cells>();
    let root = root(&heap);
    heap.run(|tx| root.list.extend_from_slice(tx, &[10, 11, 12])).unwrap();
    let attempts = Cell::new(0);
    let other = |change: &(dyn Fn(&Tx<'_>) -> Result<(), HeapError> + Sync)| {
        if attempts.replace(attempts.get() + 1) == 0 {
            thread::scope(|scope| scope.spawn(|| heap.run(|tx| change(tx)).unwrap()).join()).unwrap();
        }
    };
    let count = |read: &dyn Fn(&Tx<'_>) -> Result<(), HeapError>,
                 change: &(dyn Fn(&Tx<'_>) -> Result<(), HeapError> + Sync)| {
        attempts.set(0);
        heap.run(|tx| {
            read(tx)?;
            other(change);
            root.large[0].set(tx, [5; 4])
        })
        .unwrap();
        attempts.get()
    };
    let element = |tx: &Tx<'_>| root.list.get(tx, 0).map(drop);
    let cell = |tx: &Tx<'_>| root.cells[1].get(tx).map(drop);
    assert_eq!(count(&element, &|tx| root.list.push(tx, 13)), 1);
    assert_eq!(count(&element, &|tx| root.list.set(tx, 1, 7).map(drop)), 1);
    assert_eq!(count(&element, &|tx| root.list.set(tx, 0, 7).map(drop)), 2);
    assert_eq!(count(&|tx| root.list.len(tx).map(drop), &|tx| root.list.set(tx, 0, 8).map(drop)), 1);
    assert_eq!(count(&|tx| root.list.len(tx).map(drop), &|tx| root.list.push(tx, 14)), 2);
    assert_eq!(count(&|tx| root.text.get(tx).map(drop), &|tx| root.text.push_str(tx, "more")), 2);
    assert_eq!(count(&cell, &|tx| root.cells[0].set(tx, 1)), 1);
    assert_eq!(count(&cell, &|tx| root.cells[1].set(tx, 1)), 2);
    assert_eq!(count(&|tx| root.cells[2].get_unvalidated(tx).map(drop), &|tx| root.cells[2].set(tx, 1)), 1);
    assert_eq!(
        count(&|tx| root.large[1].get_unvalidated(tx).map(drop), &|tx| root.large[1].set(tx, [2; 4])),
        1
    );
    assert_eq!(count(&|tx| root.large[1].get(tx).map(drop), &|tx| root.large[1].set(tx, [3; 4])), 2);
}

/// Whether there is a root counts as read.
#[test]
fn root_is_validated() {
    let _turn = turn();
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Cells>();
    let attempts = AtomicU64::new(0);
    let found = heap.run(|tx| {
        let found = tx.root::<Root>()?.is_some();
        if attempts.fetch_add(1, Ordering::Relaxed) == 0 {
            let made = thread::scope(|scope| scope.spawn(|| root(&heap).cells.len()).join());
            assert_eq!(made.unwrap(), CELLS);
        }
        // A change, so that the read is validated.
        let _ = tx.alloc(Node { value: PCell::new(1), next: PBox::null() })?.free();
        Ok(found)
    });
    assert_eq!((found, attempts.into_inner()), (Ok(true), 2));
}

/// A transaction that reads all cells ends beside others that change two of them all the time.
#[test]
fn short_transactions_do_not_starve_long_one() {
    let _turn = turn();
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Cells>();
    let root = root(&heap);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 1..THREADS {
            let (heap, is_over) = (&heap, &is_over);
            scope.spawn(move || {
                let mut rng = Draws(number as u64);
                while !is_over.load(Ordering::Relaxed) {
                    let [from, to] = [rng.below(CELLS), rng.below(CELLS)].map(|cell| &root.cells[cell]);
                    heap.run(|tx| {
                        from.set(tx, from.get(tx)?.wrapping_sub(1))?;
                        to.set(tx, to.get(tx)?.wrapping_add(1))
                    })
                    .unwrap();
                }
            });
        }
        for _ in 0..20 {
            let total = heap.run(|tx| {
                let mut total = 0u64;
                for cell in &root.cells {
                    total = total.wrapping_add(cell.get(tx)?);
                    // Lets the others change what was read.
                    thread::yield_now();
                }
                root.large[0].set(tx, [total; 4])?;
                Ok(total)
            });
            assert_eq!(total, Ok(CELLS as u64 * START));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
