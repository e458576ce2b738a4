//! Stores, snapshots, their trees and iterators, and errors go to other threads; transactions do not.

use crate::place::Place;
use lodestone::{Error, ReadRange, ReadTree, Snapshot, Store, TreeDef};
use std::thread;

const NUMBERS: TreeDef<u32, String> = TreeDef::new("numbers");

fn assert_shared<T: Send + Sync + 'static>() {}

#[test]
fn handles_are_send_and_static() {
    assert_shared::<Store>();
    assert_shared::<Snapshot>();
    assert_shared::<ReadTree<u32, String>>();
    assert_shared::<ReadRange<u32, String>>();
    assert_shared::<Error>();
}

#[test]
fn iterator_outlives_all_that_it_came_from() {
    let place = Place::new();
    let entries = {
        let store = place.open();
        store.write(|tx| tx.tree(NUMBERS)?.append((0..500).map(|key| (key, key.to_string())))).unwrap();
        let entries = store.read(|view| Ok(view.tree(NUMBERS)?.range(10..490))).unwrap();
        store.write(|tx| tx.tree(NUMBERS)?.clear()).unwrap();
        entries
    };
    let sum = thread::spawn(move || entries.map(|entry| u64::from(entry.unwrap().0)).sum::<u64>());
    assert_eq!(sum.join().unwrap(), (10..490u64).sum::<u64>());
    // The iterator was the last that had the store open.
    assert_eq!(place.open().read(|view| view.tree(NUMBERS)?.count()).unwrap(), 0);
}
