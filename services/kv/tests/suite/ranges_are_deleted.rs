//! A range of keys is deleted in parts, each whole, and no other key is touched.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::{CreateOptions, Durability};
use lode_kv::Store;
use std::ops::Bound;
use tempfile::TempDir;

/// More keys than a transaction removes.
const COUNT: u64 = 70_000;

fn key(number: u64) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

fn store(folder: &TempDir) -> Store {
    let options = CreateOptions {
        durability: Some(Durability::None),
        ..CreateOptions::new(32 << 20, Store::layout_name())
    };
    let store = Store::create(&folder.path().join("pool"), &options).unwrap();
    let tree = store.tree().unwrap();
    for part in (0..COUNT).collect::<Vec<_>>().chunks(10_000) {
        store
            .heap()
            .run(|tx| {
                part.iter().try_for_each(|number| tree.insert_in(tx, &key(*number), b"value").map(drop))
            })
            .unwrap();
    }
    store
}

#[test]
fn parts_are_counted_and_the_rest_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = store(&folder);
    let range = (Bound::Included(key(10)), Bound::Excluded(key(COUNT - 10)));
    let mut parts = Vec::new();
    let deleted = store.delete_range(range, |removed| {
        parts.push(removed);
        true
    });
    assert_eq!(deleted.unwrap(), COUNT - 20);
    assert_eq!(parts, [65_536, COUNT - 20 - 65_536]);
    assert_eq!(store.count_proven().unwrap(), 20);
    for (number, is_there) in [(9, true), (10, false), (COUNT - 11, false), (COUNT - 10, true)] {
        assert_eq!(store.get_proven(&key(number)).unwrap().is_some(), is_there, "{number}");
    }
}

#[test]
fn deletion_ends_after_a_part_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = store(&folder);
    let all = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(store.delete_range(all.clone(), |_| false).unwrap(), 65_536);
    assert_eq!(store.count_proven().unwrap(), COUNT - 65_536);
    assert_eq!(store.get(&key(65_536)).unwrap().unwrap(), b"value");
    assert_eq!(store.delete_range(all.clone(), |_| true).unwrap(), COUNT - 65_536);
    assert_eq!(store.delete_range(all, |_| panic!("nothing is left")).unwrap(), 0);
}

#[test]
fn bounds_are_those_of_the_caller() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let deleted = |from, to| store.delete_range((from, to), |_| true).unwrap();
    assert_eq!(deleted(Bound::Excluded(key(3)), Bound::Included(key(5))), 2);
    assert_eq!(deleted(Bound::Included(key(9)), Bound::Excluded(key(9))), 0, "empty");
    assert_eq!(deleted(Bound::Included(key(COUNT)), Bound::Unbounded), 0, "after all keys");
    assert_eq!(deleted(Bound::Unbounded, Bound::Excluded(key(3))), 3);
    assert_eq!(store.count().unwrap(), COUNT - 5);
}
