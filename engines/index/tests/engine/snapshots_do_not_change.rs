//! A snapshot shows the tree as it was when the snapshot was opened, whatever writers do meanwhile.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::{Heap, HeapError, Snapshot};
use lode_index::{IndexError, Tree, TreeSnapshot};
use lode_layout::PoolOffset;
use lode_pmem::Mapping;
use lode_testing::{heap, memory, scaled, seed, tree};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

type Medium = Arc<Mapping>;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Compares all that a snapshot shows with what the tree held when it was opened.
fn assert_shows(tree: &Tree<'_, Medium>, snapshot: &Snapshot<'_, Medium>, model: &Model) {
    let view = TreeSnapshot::open(snapshot, tree.root()).unwrap();
    assert_eq!(view.count(), Ok(model.len() as u64));
    let all = view.iter().map(|entry| entry.map(|entry| (entry.key, entry.value.into_vec())));
    assert_eq!(all.collect::<Result<Model, _>>().as_ref(), Ok(model));
    let descending = view.iter().rev().map(|entry| entry.unwrap().key);
    assert!(descending.eq(model.keys().rev().cloned()));
    for (key, value) in model.iter().step_by(7) {
        assert_eq!(view.get(key).unwrap().unwrap().into_vec(), *value);
        let longer = [key.as_slice(), &[0]].concat();
        assert_eq!(view.get(&longer).unwrap().map(|value| value.into_vec()), model.get(&longer).cloned());
    }
}

/// Makes `count` changes in a transaction, and in the model.
fn change(tree: &Tree<'_, Medium>, model: &mut Model, random: &mut fastrand::Rng, keys: u32, count: usize) {
    let changes: Vec<(Vec<u8>, Option<Vec<u8>>)> = (0..count)
        .map(|_| {
            let key = random.u32(..keys).to_be_bytes()[random.usize(..3)..].to_vec();
            // Values of up to 8 bytes change in place.
            let len = [3, 8, 8, 40, 200][random.usize(..5)];
            (key, random.bool().then(|| vec![random.u8(..); len]))
        })
        .collect();
    let changed: Result<(), IndexError> = tree.heap().run(|tx| {
        for (key, value) in &changes {
            match value {
                Some(value) => tree.insert_in(tx, key, value)?,
                None => tree.delete_in(tx, key)?,
            };
        }
        Ok(())
    });
    changed.unwrap();
    for (key, value) in changes {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
}

#[test]
fn snapshots_match_model() {
    let heap = heap::create(Arc::new(memory::persistent(16 << 20)));
    let tree = tree::create(&heap);
    let mut random = fastrand::Rng::with_seed(seed(5));
    let mut model = Model::new();
    let mut open: VecDeque<(Snapshot<'_, Medium>, Model)> = VecDeque::new();
    for step in 0..scaled(30_000).max(3_000) {
        // Few keys and many, so that nodes grow and shrink, and the tree empties. Few changes, and more than a record
        // has room for.
        let keys = if step / 2_000 % 2 == 0 { 40 } else { 3_000 };
        let count = if random.u16(..1_000) == 0 { 2_000 } else { random.usize(1..5) };
        change(&tree, &mut model, &mut random, keys, count);
        if random.u16(..300) == 0 {
            open.push_back((heap.snapshot().unwrap(), model.clone()));
        }
        if random.u16(..300) == 0 {
            let closed = if random.bool() { open.pop_front() } else { open.pop_back() };
            if let Some((snapshot, model)) = closed {
                assert_shows(&tree, &snapshot, &model);
            }
        }
    }
    for (snapshot, model) in &open {
        assert_shows(&tree, snapshot, model);
    }
    assert_eq!(heap.snapshot_stats().open, open.len());
    drop(open);
    assert_eq!(heap.snapshot_stats(), Default::default());
    assert_shows(&tree, &heap.snapshot().unwrap(), &model);
    drop(heap.snapshot());
    tree::check(&heap, &tree, model.len() as u64);
}

/// Snapshots beside writers, and read in other threads than the one that opened them.
#[test]
fn snapshots_are_of_one_moment() {
    const ACCOUNTS: u64 = 300;
    let heap = heap::create(Arc::new(memory::persistent(16 << 20)));
    let tree = tree::create(&heap);
    for account in 0..ACCOUNTS {
        tree.insert(&account.to_be_bytes(), &1_000u64.to_le_bytes()).unwrap();
    }
    let transfer = |random: &mut fastrand::Rng| {
        let (from, to, amount) = (random.u64(..ACCOUNTS), random.u64(..ACCOUNTS), random.u64(1..50));
        heap.run(|tx| {
            let change = |account: u64, amount: u64, grows: bool| {
                let old = tree.get_in(tx, &account.to_be_bytes())?.unwrap();
                let old = u64::from_le_bytes(old[..8].try_into().unwrap());
                // Values of different lengths, so that leaves are replaced.
                let mut new = old.wrapping_add(amount).to_le_bytes().to_vec();
                new.resize(if grows { 60 } else { 8 }, 0);
                tree.insert_in(tx, &account.to_be_bytes(), &new).map(drop)
            };
            change(from, amount.wrapping_neg(), amount % 2 == 0)?;
            change(to, amount, amount % 3 == 0)
        })
        .unwrap_or_else(|error: IndexError| panic!("{error}"));
    };
    let are_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..2 {
            let (transfer, are_done) = (&transfer, &are_done);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed(7) + thread);
                while !are_done.load(Ordering::Relaxed) {
                    transfer(&mut random);
                }
            });
        }
        for _ in 0..scaled(40).max(10) {
            let snapshot = heap.snapshot().unwrap();
            let sum = || {
                let view = TreeSnapshot::open(&snapshot, tree.root()).unwrap();
                assert_eq!(view.count(), Ok(ACCOUNTS));
                let value = |entry: lode_index::Entry| entry.value.as_ref()[..8].try_into().unwrap();
                view.iter()
                    .fold(0u64, |sum, entry| sum.wrapping_add(u64::from_le_bytes(value(entry.unwrap()))))
            };
            assert_eq!(sum(), ACCOUNTS * 1_000);
            thread::scope(|scope| assert_eq!(scope.spawn(sum).join().unwrap(), ACCOUNTS * 1_000));
            thread::scope(|scope| drop(scope.spawn(move || drop(snapshot))));
        }
        are_done.store(true, Ordering::Relaxed);
    });
}

fn is_ended<T>(result: Result<T, IndexError>) -> bool {
    matches!(result, Err(IndexError::Heap(HeapError::SnapshotEnded)))
}

fn fill(heap: &Heap<Medium>) -> Tree<'_, Medium> {
    let tree = tree::create(heap);
    (0..2_000u32).for_each(|key| assert!(!tree.insert(&key.to_be_bytes(), &[1; 100]).unwrap()));
    tree
}

#[test]
fn snapshot_ends_at_limit_of_memory() {
    let heap = heap::create(Arc::new(memory::persistent(16 << 20)));
    let tree = fill(&heap);
    heap.set_snapshot_memory_max(64 << 10);
    let old = heap.snapshot().unwrap();
    let view = TreeSnapshot::open(&old, tree.root()).unwrap();
    let mut scan = view.iter();
    scan.next().unwrap().unwrap();
    (0..2_000u32).for_each(|key| assert!(tree.delete(&key.to_be_bytes()).unwrap()));
    assert!(is_ended(view.get(&7u32.to_be_bytes())) && is_ended(scan.next().unwrap()));
    let stats = heap.snapshot_stats();
    assert!(stats.open == 0 && stats.memory < 128 << 10, "{stats:?}");
    let new = heap.snapshot().unwrap();
    assert_eq!(TreeSnapshot::open(&new, tree.root()).unwrap().count(), Ok(0));
}

/// A snapshot keeps freed space from use. When a transaction finds no other, the snapshot ends, and the transaction
/// does not fail.
#[test]
fn snapshot_ends_before_pool_is_full() {
    let heap = heap::create(Arc::new(memory::persistent(4 << 20)));
    let tree = fill(&heap);
    let old = heap.snapshot().unwrap();
    for round in 0..40u8 {
        (0..2_000u32).for_each(|key| assert!(tree.insert(&key.to_be_bytes(), &[round; 100]).unwrap()));
    }
    assert!(is_ended(TreeSnapshot::open(&old, tree.root())));
    assert_eq!(heap.snapshot_stats(), Default::default());
}

#[test]
fn snapshot_shows_its_own_root() {
    let heap = heap::create(Arc::new(memory::persistent(1 << 20)));
    let before = heap.snapshot().unwrap();
    let tree = tree::create(&heap);
    let after = heap.snapshot().unwrap();
    assert_eq!((before.root(), after.root()), (Ok(PoolOffset::NULL), Ok(tree.root())));
    let leaf = PoolOffset::new(tree.root().get() + 64);
    assert_eq!(TreeSnapshot::open(&after, leaf).unwrap_err(), IndexError::NoTree { at: leaf });
    let inside = heap.run(|_| heap.snapshot().map(drop));
    assert_eq!(inside, Err(HeapError::InTransaction));
}
