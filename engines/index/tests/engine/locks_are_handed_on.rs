//! At durability commit transactions that change the same words share log writes: the locks of one that waits for its
//! sync go to the next one.

use lode_heap::{Heap, HeapError};
use lode_index::{IndexError, Tree};
use lode_testing::gated_log::GatedLog;
use lode_testing::heap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: u64 = 16;
/// Transactions of each thread.
const STEPS: u64 = 60;

type TestHeap = Heap<Arc<GatedLog>>;

/// Returns a heap whose log writes take a millisecond, as on a disk.
fn slow_heap() -> TestHeap {
    let medium = GatedLog::new(64 << 20);
    medium.slow_down();
    heap::create(Arc::new(medium))
}

/// Runs `step` in each thread, and returns the number of transactions for each log write.
fn transactions_per_write(
    name: &str,
    step: impl Fn(&Tree<'_, Arc<GatedLog>>, u64) -> Result<(), IndexError> + Sync,
    check: impl FnOnce(&Tree<'_, Arc<GatedLog>>),
) -> f64 {
    let heap = slow_heap();
    let root = heap.run(Tree::create).expect("a new tree");
    let tree = Tree::open(&heap, root).expect("the tree");
    let next = AtomicU64::new(0);
    let before = heap.medium().log_writes();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..STEPS {
                    step(&tree, next.fetch_add(1, Ordering::Relaxed)).expect("a step");
                }
            });
        }
    });
    let writes = heap.medium().log_writes() - before;
    check(&tree);
    tree.check(|finding| assert!(matches!(finding, lode_index::Finding::Object(_)), "{finding:?}"));
    let per_write = (THREADS * STEPS) as f64 / writes as f64;
    println!("{name}: {per_write:.1} transactions for each log write");
    per_write
}

fn has_all_keys(tree: &Tree<'_, Arc<GatedLog>>) {
    assert_eq!(tree.count_leaves(u64::MAX), Ok(THREADS * STEPS));
}

#[test]
fn counter_is_handed_on() {
    let add = |tree: &Tree<'_, Arc<GatedLog>>, _| {
        tree.update(b"counter", |old| {
            let old = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
            Some((old + 1).to_le_bytes().to_vec())
        })
    };
    let per_write = transactions_per_write("counter", add, |tree| {
        assert_eq!(tree.get(b"counter").unwrap().unwrap(), (THREADS * STEPS).to_le_bytes());
    });
    assert!(per_write > 3.0, "{per_write}");
}

#[test]
fn nodes_of_sequential_keys_are_handed_on() {
    let insert = |tree: &Tree<'_, Arc<GatedLog>>, number: u64| {
        tree.insert(&number.to_be_bytes(), &[number as u8; 100]).map(drop)
    };
    let per_write = transactions_per_write("sequential keys", insert, has_all_keys);
    assert!(per_write > 3.0, "{per_write}");
}

#[test]
fn random_keys_share_log_writes() {
    let insert = |tree: &Tree<'_, Arc<GatedLog>>, number: u64| {
        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        tree.insert(&key.to_be_bytes(), &[number as u8; 100]).map(drop)
    };
    let per_write = transactions_per_write("random keys", insert, has_all_keys);
    assert!(per_write > 3.0, "{per_write}");
}

/// Post-mortem. A begun transaction waited for nodes that were never at rest: each insert handed them on to the next.
#[test]
fn begun_transaction_inserts_beside_others() {
    const KEYS_MAX: u64 = 3_000;
    let heap = slow_heap();
    let root = heap.run(Tree::create).expect("a new tree");
    let tree = Tree::open(&heap, root).expect("the tree");
    let (next, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let number = next.fetch_add(2, Ordering::Relaxed);
                    if number > KEYS_MAX {
                        return;
                    }
                    tree.insert(&number.to_be_bytes(), b"others").expect("an insert");
                }
            });
        }
        for number in [1u64, 3, 5] {
            let insert = || -> Result<(), IndexError> {
                let begun = heap.begin()?;
                begun.step(|tx| {
                    tree.get_in(tx, &number.to_be_bytes())?;
                    tree.insert_in(tx, &number.to_be_bytes(), b"begun")
                })?;
                Ok(begun.commit()?)
            };
            while let Err(error) = insert() {
                assert_eq!(error, IndexError::Heap(HeapError::Conflict));
            }
        }
        assert!(next.load(Ordering::Relaxed) < KEYS_MAX, "it waited for the others to end");
        is_done.store(true, Ordering::Relaxed);
    });
    for number in [1u64, 3, 5] {
        assert_eq!(tree.get(&number.to_be_bytes()), Ok(Some(b"begun".to_vec())));
    }
}

/// Post-mortem. A begun transaction that had waited for a node, and held its lock, could not change it: the lock still
/// looked pending.
#[test]
fn begun_transaction_changes_the_node_for_which_it_waited() {
    let heap = heap::create(Arc::new(GatedLog::new(4 << 20)));
    let root = heap.run(Tree::create).expect("a new tree");
    let tree = Tree::open(&heap, root).expect("the tree");
    tree.insert(b"read", b"before").expect("an insert");
    tree.insert(b"edit", b"before").expect("an insert");
    heap.medium().shut(true);
    let begun = thread::scope(|scope| {
        scope.spawn(|| tree.insert(b"more", b"before").expect("an insert"));
        heap.medium().await_write();
        let begun = scope.spawn(|| {
            let begun = heap.begin()?;
            begun.step(|tx| {
                tree.get_in(tx, b"read")?;
                tree.insert_in(tx, b"edit", b"behind")
            })?;
            Ok::<_, IndexError>(begun.commit()?)
        });
        thread::sleep(Duration::from_millis(20));
        heap.medium().shut(false);
        begun.join().expect("no panic")
    });
    assert_eq!(begun, Ok(()));
    assert_eq!(tree.get(b"edit"), Ok(Some(b"behind".to_vec())));
}
