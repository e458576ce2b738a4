//! A check reports each entry of the table of trees that no program stores, and ends without a panic.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_fsck::check_pool;
use lode_heap::Heap;
use lode_heap::check::{Report, Severity};
use lode_index::{IndexError, NamedTree, StoreLayout, Tree, Trees};
use lode_layout::{PoolOffset, TreeEntry, TreeTableKey};
use lode_pmem::Mapping;
use lode_testing::{kv, memory};
use std::sync::Arc;

type Medium = Arc<Mapping>;

/// Makes a store with two trees of ten keys each, and one of them dropped besides.
fn store() -> (Heap<Medium>, PoolOffset, NamedTree) {
    let heap = kv::create_empty(1 << 20, StoreLayout::NAME);
    let table = heap.run(Trees::create).unwrap();
    let trees = Trees::open(&heap, table).unwrap();
    let named = ["first", "second", "dropped"].map(|name| {
        heap.run(|tx| {
            let named = trees.create_in(tx, name, "u8", "u8")?;
            let tree = Tree::open_in(&heap, tx, named.root)?;
            (0..10u8).try_for_each(|key| tree.insert_in(tx, &[key], &[key]).map(drop))?;
            Ok::<_, IndexError>(named)
        })
        .unwrap()
    });
    assert_eq!(heap.run(|tx| trees.drop_in(tx, "dropped")).unwrap().as_ref(), Some(&named[2]));
    let [first, ..] = named;
    (heap, table, first)
}

fn check(heap: Heap<Medium>) -> Report {
    let medium = Arc::clone(heap.medium());
    heap.close().unwrap();
    check_pool(Arc::new(memory::from_bytes(&memory::bytes(&medium))), &[&StoreLayout])
}

#[test]
fn sound_store_has_no_finding() {
    let report = check(store().0);
    // The header says that the pool is open, as after a crash; that is no damage.
    assert!(report.worst() < Some(Severity::Damage), "{report}");
    assert_eq!((report.counts.keys, report.counts.reached), (30, report.counts.objects), "{report}");
}

#[test]
fn invalid_entries_are_damage() {
    let entry =
        |root: u64| TreeEntry { root: PoolOffset::new(root), key_type: "u8", value_type: "u8" }.encode();
    let (_, _, first) = store();
    let leaf = first.root.get() + 64;
    let entries: Vec<(&str, Vec<u8>, Vec<u8>)> = vec![
        ("an entry that is too short", TreeTableKey::Named("x").encode(), vec![1; 5]),
        ("an unknown kind of key", b"\x07x".to_vec(), entry(first.root.get())),
        ("an empty key", vec![], entry(first.root.get())),
        ("a name that is no text", b"\x01\xFF".to_vec(), entry(first.root.get())),
        ("a root that another name has", TreeTableKey::Named("x").encode(), entry(first.root.get())),
        ("a root inside of a tree", TreeTableKey::Named("x").encode(), entry(leaf)),
        ("a root outside of the pool", TreeTableKey::Named("x").encode(), entry(1 << 40)),
        ("a dropped tree that is named", TreeTableKey::Dropped(first.root).encode(), vec![]),
        ("a dropped tree with an entry", TreeTableKey::Dropped(first.root).encode(), vec![1]),
        ("a dropped tree of a short offset", b"\x02\x01".to_vec(), vec![]),
    ];
    for (what, key, value) in entries {
        let (heap, table, _) = store();
        Tree::open(&heap, table).unwrap().insert(&key, &value).unwrap();
        let report = check(heap);
        assert_eq!(report.worst(), Some(Severity::Damage), "{what}: {report}");
    }
}

#[test]
fn table_that_is_its_own_tree_is_damage() {
    let (heap, table, _) = store();
    let entry = TreeEntry { root: table, key_type: "", value_type: "" };
    let tree = Tree::open(&heap, table).unwrap();
    tree.insert(&TreeTableKey::Named("x").encode(), &entry.encode()).unwrap();
    assert_eq!(check(heap).worst(), Some(Severity::Damage));
}

#[test]
fn interrupted_reclaim_goes_on() {
    let (heap, table, _) = store();
    let trees = Trees::open(&heap, table).unwrap();
    let mut steps = 0;
    while trees.reclaim(4).unwrap() {
        steps += 1;
        assert_eq!(trees.has_dropped().unwrap(), steps < 4, "after {steps} steps");
    }
    // 4, 4 and 2 keys, and then the root object.
    assert_eq!(steps, 4);
    assert!(!trees.reclaim(4).unwrap());
    let report = check(heap);
    assert_eq!((report.counts.keys, report.counts.reached), (20, report.counts.objects), "{report}");
}
