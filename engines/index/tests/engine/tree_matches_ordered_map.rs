//! Whatever is done to a tree, it answers like a `BTreeMap`, is sound, and leaves nothing behind in the heap.

use lode_heap::Heap;
use lode_index::{IndexError, Tree};
use lode_pmem::{Mapping, Medium};
use lode_testing::{heap, memory, tree};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Bytes that are printed as runs of equal ones.
#[derive(Clone, PartialEq)]
struct RunLengths(Vec<u8>);

impl fmt::Debug for RunLengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for run in self.0.chunk_by(|a, b| a == b) {
            write!(f, "{}*{} ", run[0], run.len())?;
        }
        f.write_str("]")
    }
}

/// What is done to tree and model.
#[derive(Clone, Debug)]
enum Action {
    Insert(RunLengths, RunLengths),
    Delete(RunLengths),
    DeleteNth(usize),
    ReplaceNth(usize, RunLengths),
    Append(RunLengths, u8),
    Scan(Bound<RunLengths>, Bound<RunLengths>, Vec<bool>),
    Prefix(Vec<u8>),
    Several(Vec<(RunLengths, Option<RunLengths>)>, bool),
    Reopen,
}

/// Keys that share nodes in all ways: prefixes of each other, long common prefixes, all bytes, dense, random.
fn key() -> impl Strategy<Value = RunLengths> {
    let few = prop::sample::select(vec![0u8, 1, 2, b'a', 254, 255]);
    prop_oneof![
        4 => prop::collection::vec(few.clone(), 0..5),
        3 => any::<u8>().prop_map(|byte| vec![7, byte]),
        2 => (0u64..400).prop_map(|number| number.to_be_bytes().to_vec()),
        2 => any::<u64>().prop_map(|number| number.to_be_bytes().to_vec()),
        2 => (0usize..9, few).prop_map(|(len, byte)| vec![byte; len]),
        2 => (prop::sample::select(vec![1022, 1023, 1024, 1025, 2046, 2047, 2048, 3100]), any::<bool>(), 0u8..3)
            .prop_map(|(len, cut, byte)| {
                let mut key = vec![b'x'; len];
                if !cut {
                    key.push(byte);
                }
                key
            }),
        1 => (0usize..3, 0u8..3).prop_map(|(less, byte)| {
            let mut key = vec![b'x'; 65_536 - less];
            key[65_000] = byte;
            key
        }),
    ]
    .prop_map(RunLengths)
}

fn value() -> impl Strategy<Value = RunLengths> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 8),
        3 => prop::collection::vec(any::<u8>(), 0..20),
        1 => (1000usize..5000, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ]
    .prop_map(RunLengths)
}

fn bound() -> impl Strategy<Value = Bound<RunLengths>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        3 => key().prop_map(Bound::Included),
        3 => key().prop_map(Bound::Excluded),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        30 => (key(), value()).prop_map(|(key, value)| Action::Insert(key, value)),
        6 => key().prop_map(Action::Delete),
        12 => any::<usize>().prop_map(Action::DeleteNth),
        6 => (any::<usize>(), value()).prop_map(|(nth_key, value)| Action::ReplaceNth(nth_key, value)),
        4 => (key(), any::<u8>()).prop_map(|(key, byte)| Action::Append(key, byte)),
        6 => (bound(), bound(), prop::collection::vec(any::<bool>(), 0..12))
            .prop_map(|(from, to, ways)| Action::Scan(from, to, ways)),
        3 => prop::collection::vec(prop::sample::select(vec![0u8, 7, b'a', b'x', 255]), 0..3)
            .prop_map(Action::Prefix),
        4 => (prop::collection::vec((key(), prop::option::of(value())), 1..8), any::<bool>())
            .prop_map(|(changes, is_kept)| Action::Several(changes, is_kept)),
        1 => Just(Action::Reopen),
    ]
}

fn nth_key(model: &Model, nth_key: usize) -> Option<Vec<u8>> {
    model.keys().nth(nth_key % model.len().max(1)).cloned()
}

fn is_valid_range(bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>), key: &Vec<u8>) -> bool {
    std::ops::RangeBounds::contains(bounds, key)
}

/// Scans both ways in turn, as `ways` says, and then up to the end.
fn scan<M: Medium>(
    tree: &Tree<'_, M>,
    model: &Model,
    bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    ways: &[bool],
) {
    let mut expected = model.iter().filter(|(key, _)| is_valid_range(&bounds, key));
    let reader = tree.reader();
    let mut range = reader.range(bounds.clone());
    let mut more = ways.iter().copied().chain(std::iter::repeat(true));
    loop {
        let (found, expected) = match more.next() {
            Some(false) => (range.next_back(), expected.next_back()),
            _ => (range.next(), expected.next()),
        };
        let found = found.map(|entry| {
            let entry = entry.expect("a sound tree");
            (RunLengths(entry.key), RunLengths(entry.value.into_vec()))
        });
        let expected = expected.map(|(key, value)| (RunLengths(key.clone()), RunLengths(value.clone())));
        assert_eq!(found, expected);
        if expected.is_none() {
            return;
        }
    }
}

fn apply<M: Medium>(tree: &Tree<'_, M>, model: &mut Model, action: &Action) {
    match action {
        Action::Insert(key, value) => insert(tree, model, &key.0, &value.0),
        Action::Delete(key) => delete(tree, model, &key.0),
        Action::DeleteNth(number) => {
            if let Some(key) = nth_key(model, *number) {
                delete(tree, model, &key);
            }
        }
        Action::ReplaceNth(number, value) => {
            if let Some(key) = nth_key(model, *number) {
                insert(tree, model, &key, &value.0);
            }
        }
        Action::Append(key, byte) => {
            let longer = |old: Option<&[u8]>| old.map(|old| [old, &[*byte]].concat());
            tree.update(&key.0, longer).expect("an update");
            if let Some(value) = model.get_mut(&key.0) {
                value.push(*byte);
            }
        }
        Action::Scan(from, to, ways) => {
            scan(tree, model, (from.clone().map(|key| key.0), to.clone().map(|key| key.0)), ways)
        }
        Action::Prefix(prefix) => {
            let reader = tree.reader();
            let found: Vec<Vec<u8>> =
                reader.prefix(prefix).map(|entry| entry.expect("a sound tree").key).collect();
            let expected: Vec<&Vec<u8>> = model.keys().filter(|key| key.starts_with(prefix)).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        }
        Action::Several(changes, is_kept) => apply_transaction(tree, model, changes, *is_kept),
        Action::Reopen => {}
    }
}

fn insert<M: Medium>(tree: &Tree<'_, M>, model: &mut Model, key: &[u8], value: &[u8]) {
    let was_there = model.insert(key.to_vec(), value.to_vec()).is_some();
    assert_eq!(tree.insert(key, value), Ok(was_there));
    assert_eq!(tree.get(key), Ok(Some(value.to_vec())));
}

fn delete<M: Medium>(tree: &Tree<'_, M>, model: &mut Model, key: &[u8]) {
    assert_eq!(tree.delete(key), Ok(model.remove(key).is_some()));
    assert_eq!(tree.get(key), Ok(None));
}

/// Several changes in one transaction, which sees its own; rolled back if they are not to be kept.
fn apply_transaction<M: Medium>(
    tree: &Tree<'_, M>,
    model: &mut Model,
    changes: &[(RunLengths, Option<RunLengths>)],
    is_kept: bool,
) {
    let mut after = model.clone();
    let result: Result<(), IndexError> = tree.heap().run(|tx| {
        after.clone_from(model);
        for (RunLengths(key), value) in changes {
            match value {
                Some(RunLengths(value)) => {
                    let was_there = after.insert(key.clone(), value.clone()).is_some();
                    assert_eq!(tree.insert_in(tx, key, value)?, was_there);
                }
                None => assert_eq!(tree.delete_in(tx, key)?, after.remove(key).is_some()),
            }
            for (RunLengths(key), _) in changes {
                assert_eq!(tree.get_in(tx, key)?, after.get(key).cloned());
            }
        }
        if is_kept { Ok(()) } else { Err(IndexError::KeyTooLong { len: 0 }) }
    });
    assert_eq!(result.is_ok(), is_kept);
    if is_kept {
        *model = after;
    }
    for (RunLengths(key), _) in changes {
        assert_eq!(tree.get(key).expect("a value"), model.get(key).cloned());
    }
}

fn run(actions: &[Action]) {
    let medium: Arc<Mapping> = memory::volatile(16 << 20);
    let mut heap: Heap<Arc<Mapping>> = heap::create(Arc::clone(&medium));
    tree::create(&heap);
    let (mut model, mut lives) = (Model::new(), 2);
    for action in actions {
        if let Action::Reopen = action {
            drop(heap);
            lives += 1;
            heap = heap::open(Arc::clone(&medium), lives);
        }
        apply(&tree::open(&heap), &mut model, action);
    }
    let tree = tree::open(&heap);
    scan(&tree, &model, (Bound::Unbounded, Bound::Unbounded), &[]);
    tree::check(&heap, &tree, model.len() as u64);
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    for key in keys {
        delete(&tree, &mut model, &key);
    }
    tree::check(&heap, &tree, 0);
    assert_eq!(heap.objects().count(), 1, "the root object alone is left");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_actions(actions in prop::collection::vec(action(), 1..150)) {
        run(&actions);
    }
}
