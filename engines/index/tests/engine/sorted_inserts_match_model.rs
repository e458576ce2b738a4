//! A batch of insertions has the effect of single ones, whatever the order of its keys, and beside other threads.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_index::{IndexError, Tree};
use lode_pmem::Mapping;
use lode_testing::{heap, memory, scaled, seed, tree};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns a key of few different bytes: it shares its first bytes with many others, begins with some, and some begin
/// with it. Some skip more bytes than a slot can. It ends with `last`.
fn key(random: &mut fastrand::Rng, last: &[u8]) -> Vec<u8> {
    let filler = [0, 0, 0, 3, 1100][random.usize(..5)];
    let mut key = vec![b'x'; filler];
    // Nodes of all kinds.
    let bytes = [b'e', b'z', 255][random.usize(..3)];
    key.extend((0..random.usize(..6)).map(|_| random.u8(b'a'..bytes)));
    key.extend_from_slice(last);
    key
}

/// Returns a batch of changes, often sorted: keys with new values, or without one.
fn batch(random: &mut fastrand::Rng, len: usize, last: &[u8]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut batch: Vec<_> = (0..len)
        .map(|_| {
            let value = vec![random.u8(..); [0, 3, 8, 8, 40][random.usize(..5)]];
            (key(random, last), (random.u8(..10) < 7).then_some(value))
        })
        .collect();
    if random.u8(..4) != 0 {
        batch.sort_by(|(one, _), (other, _)| one.cmp(other));
    }
    batch
}

/// Removes the keys of a batch without values, and then puts the others. Returns the number of keys that had a value
/// before.
fn apply(tree: &Tree<'_, Arc<Mapping>>, batch: &[(Vec<u8>, Option<Vec<u8>>)]) -> u64 {
    let applied: Result<u64, IndexError> = tree.heap().run(|tx| {
        let mut pairs = Vec::new();
        for (key, value) in batch {
            match value {
                Some(value) => pairs.push((key.as_slice(), value.as_slice())),
                None => _ = tree.delete_in(tx, key)?,
            }
        }
        tree.insert_sorted_in(tx, &pairs)
    });
    applied.unwrap()
}

/// Does the same to the model.
fn apply_to(model: &mut Model, batch: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> u64 {
    let (put, removed): (Vec<_>, Vec<_>) = batch.into_iter().partition(|(_, value)| value.is_some());
    for (key, _) in removed {
        model.remove(&key);
    }
    let replaced = put.into_iter().filter_map(|(key, value)| model.insert(key, value?));
    replaced.count() as u64
}

fn assert_has(tree: &Tree<'_, Arc<Mapping>>, model: &Model) {
    tree::check(tree.heap(), tree, model.len() as u64);
    let reader = tree.reader();
    let entries = reader.iter().map(|entry| entry.map(|entry| (entry.key, entry.value.into_vec())));
    assert_eq!(entries.collect::<Result<Model, _>>().as_ref(), Ok(model));
}

#[test]
fn sorted_inserts_match_model() {
    let mut random = fastrand::Rng::with_seed(seed(6));
    for _ in 0..scaled(20).max(5) {
        let heap = heap::create(Arc::new(memory::persistent(32 << 20)));
        let (tree, mut model) = (tree::create(&heap), Model::new());
        for _ in 0..20 {
            let len = [3, 60, 1500][random.usize(..3)];
            let batch = batch(&mut random, len, b"");
            assert_eq!(apply(&tree, &batch), apply_to(&mut model, batch));
        }
        assert_has(&tree, &model);
    }
}

/// Threads insert and delete keys of their own, which meet in the same nodes.
#[test]
fn sorted_inserts_of_threads_match_models() {
    let heap = heap::create(Arc::new(memory::persistent(32 << 20)));
    let tree = tree::create(&heap);
    let change = |thread: u8| {
        let mut random = fastrand::Rng::with_seed(seed(7) + u64::from(thread));
        let mut model = Model::new();
        for _ in 0..scaled(600).max(150) {
            let len = random.usize(1..30);
            let batch = batch(&mut random, len, &[thread]);
            assert_eq!(apply(&tree, &batch), apply_to(&mut model, batch));
        }
        model
    };
    let models = thread::scope(|scope| {
        let threads: Vec<_> = (1..4).map(|thread| scope.spawn(move || change(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_has(&tree, &models.into_iter().flatten().collect());
}

/// Each key is a prefix of the next one, so the nodes of a batch are as deep as it is long.
#[test]
fn nested_keys_are_inserted() {
    let heap = heap::create(Arc::new(memory::persistent(64 << 20)));
    let (tree, longest) = (tree::create(&heap), vec![b'k'; 2000]);
    let batch: Vec<_> = (0..longest.len()).map(|len| (longest[..len].to_vec(), Some(vec![]))).collect();
    let mut model = Model::new();
    assert_eq!(apply(&tree, &batch), apply_to(&mut model, batch));
    assert_has(&tree, &model);
}
