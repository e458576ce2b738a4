//! A transaction of any length is one: all of it is there, or nothing, and it sees its own changes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::{HeapError, Tx};
use lode_index::{IndexError, Tree};
use lode_pmem::Mapping;
use lode_testing::{heap, memory, scaled, seed, tree};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Makes `steps` random changes to the tree, as a part of one transaction, and to `model`. Looks up keys in between.
fn change(
    tree: &Tree<'_, Arc<Mapping>>,
    model: &mut Model,
    random: &mut fastrand::Rng,
    steps: u64,
) -> Result<(), IndexError> {
    tree.heap().run(|tx| {
        let (mut attempt, mut draw) = (model.clone(), random.clone());
        for _ in 0..steps {
            let key = draw.u32(..steps as u32).to_be_bytes().repeat(draw.usize(1..4));
            match draw.u8(..8) {
                0..5 => {
                    // Values above a kilobyte are written past the log.
                    let len = if draw.u8(..20) == 0 { draw.usize(1000..3000) } else { draw.usize(..100) };
                    let value = vec![draw.u8(..); len];
                    let was_there = tree.insert_in(tx, &key, &value)?;
                    assert_eq!(was_there, attempt.insert(key, value).is_some());
                }
                5 | 6 => assert_eq!(tree.delete_in(tx, &key)?, attempt.remove(&key).is_some()),
                _ => assert_eq!(tree.get_in(tx, &key)?, attempt.get(&key).cloned()),
            }
        }
        (*model, *random) = (attempt, draw);
        Ok::<_, IndexError>(())
    })
}

fn assert_equal(tree: &Tree<'_, Arc<Mapping>>, model: &Model) {
    tree::check(tree.heap(), tree, model.len() as u64);
    for (key, value) in model {
        assert_eq!(tree.get(key).unwrap().as_ref(), Some(value));
    }
}

/// Transactions of more and less than a record, one after the other, and after each one a crash: the medium is opened
/// again as it is, without a close.
#[test]
fn long_transactions_match_model() {
    let medium = Arc::new(memory::persistent(256 << 20));
    heap::format(&medium);
    let mut random = fastrand::Rng::with_seed(seed(9));
    let mut model = Model::new();
    let mut root = None;
    for (round, steps) in (2..).zip([scaled(20_000), 100, scaled(40_000), 3_000, scaled(60_000)]) {
        let (heap, _) = heap::recover(Arc::clone(&medium), round);
        let tree = if root.is_none() { tree::create(&heap) } else { tree::open(&heap) };
        root = Some(tree.root());
        assert_equal(&tree, &model);
        change(&tree, &mut model, &mut random, steps).unwrap();
        assert_equal(&tree, &model);
    }
    let (heap, recovery) = heap::recover(Arc::clone(&medium), 99);
    assert!(recovery.replayed > 0, "the last transaction was never checkpointed");
    assert_equal(&tree::open(&heap), &model);
}

/// Nothing is left of a long transaction that fails, and its space is free again.
#[test]
fn failed_long_transaction_changes_nothing() {
    let heap = heap::create(Arc::new(memory::persistent(64 << 20)));
    let tree = tree::create(&heap);
    let mut random = fastrand::Rng::with_seed(seed(9));
    let mut model = Model::new();
    change(&tree, &mut model, &mut random, 5_000).unwrap();
    let free = heap.stats().unwrap().free_chunk_bytes;
    for _ in 0..20 {
        let failed = heap.run(|tx| {
            for number in 0..30_000u32 {
                tree.insert_in(tx, &number.to_be_bytes(), &[7; 300])?;
            }
            Err::<(), _>(IndexError::Heap(HeapError::Conflict))
        });
        assert_eq!(failed, Err(IndexError::Heap(HeapError::Conflict)));
    }
    assert_equal(&tree, &model);
    let left = heap.stats().unwrap().free_chunk_bytes;
    assert_eq!(left, free, "a transaction that failed has kept space");
}

/// A transaction that is longer than a ring of the log takes free space for its changes of older objects. A checkpoint gives
/// it back.
#[test]
fn log_of_long_transaction_is_given_back() {
    let heap = heap::create(Arc::new(memory::persistent(64 << 20)));
    let tree = tree::create(&heap);
    // Values of 8 bytes change in place: the transaction takes space for nothing else.
    let free = || heap.stats().unwrap().free_chunk_bytes;
    let put_all = |value: u64| {
        let put = |tx: &Tx<'_, _>, number: u32| {
            tree.insert_in(tx, &number.to_be_bytes(), &value.to_le_bytes()).map(drop)
        };
        heap.run(|tx| (0..50_000).try_for_each(|number| put(tx, number))).unwrap();
    };
    put_all(1);
    heap.log().checkpoint().unwrap();
    let before = free();
    for value in 2..6 {
        put_all(value);
        heap.log().checkpoint().unwrap();
        assert_eq!(free(), before, "after the transaction {value}");
    }
}

/// A transaction may use most of a pool: its new objects take no space in the log.
#[test]
fn long_transaction_fills_pool() {
    const LEN: u64 = 64 << 20;
    let heap = heap::create(Arc::new(memory::persistent(LEN)));
    let tree = tree::create(&heap);
    let free = heap.stats().unwrap().free_chunk_bytes;
    let value = vec![7; 1000];
    let keys = free * 9 / 10 / 1100;
    heap.run(|tx| {
        for key in 0..keys {
            tree.insert_in(tx, &key.to_be_bytes(), &value)?;
        }
        Ok::<_, IndexError>(())
    })
    .unwrap();
    tree::check(&heap, &tree, keys);
}
