//! A transaction of another pool can't change a tree: what it stored would go to the other pool, at this one's offsets.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::{CreateOptions, Durability, HeapError};
use lode_index::{IndexError, Tree};
use lode_kv::Store;
use lode_layout::PoolOffset;

#[test]
fn other_heap_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = CreateOptions {
        durability: Some(Durability::None),
        ..CreateOptions::new(1 << 20, Store::layout_name())
    };
    let [store, other] = ["a", "b"].map(|name| Store::create(&folder.path().join(name), &options).unwrap());
    for store in [&store, &other] {
        store.put(b"key", b"value").unwrap();
    }
    let tree = store.tree().unwrap();
    let refused = Err(IndexError::OtherPool);
    assert_eq!(other.heap().run(|tx| tree.insert_in(tx, b"key", b"another").map(drop)), refused);
    assert_eq!(other.heap().run(|tx| tree.delete_in(tx, b"key").map(drop)), refused);
    assert_eq!(other.heap().run(|tx| tree.update_in(tx, b"key", |_| Some(vec![1]))), refused);
    assert_eq!(other.heap().run(|tx| tree.get_in(tx, b"key").map(drop)), refused);
    // An error that is dropped changes nothing either.
    let dropped = other.heap().run(|tx| {
        let _ = tree.insert_in(tx, b"key", b"another");
        Ok::<_, HeapError>(())
    });
    assert_eq!(dropped, Ok(()));
    for store in [&store, &other] {
        assert_eq!((store.get(b"key").unwrap().unwrap(), store.count().unwrap()), (b"value".to_vec(), 1));
    }
}

#[test]
fn open_refuses_non_tree_objects() {
    let folder = tempfile::tempdir().unwrap();
    let options = CreateOptions {
        durability: Some(Durability::None),
        ..CreateOptions::new(1 << 20, Store::layout_name())
    };
    let store = Store::create(&folder.path().join("a"), &options).unwrap();
    let at = store.heap().run(|tx| tx.alloc_zeroed(4096, 64, 1)).unwrap();
    assert_eq!(Tree::open(store.heap(), at).map(drop), Err(IndexError::NoTree { at }));
    let outside = PoolOffset::new(1 << 40);
    assert!(matches!(Tree::open(store.heap(), outside), Err(IndexError::Fault(_))));
    assert_eq!(store.count().unwrap(), 0);
}

/// A transaction that goes down a tree again keeps the locks of what it has stored.
#[test]
fn locks_of_stored_words_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let options = CreateOptions {
        durability: Some(Durability::None),
        ..CreateOptions::new(1 << 20, Store::layout_name())
    };
    let store = Store::create(&folder.path().join("a"), &options).unwrap();
    let at = store.heap().run(|tx| tx.alloc_zeroed(64, 64, 1)).unwrap();
    let locked = |stores: bool| {
        store.heap().run(|tx| {
            let held = tx.lock_savepoint();
            assert!(!held.has_locks());
            tx.lock(at)?;
            if stores {
                tx.store8(at, 1);
            }
            tx.unlock_since(held);
            Ok::<_, HeapError>(tx.holds_lock(at))
        })
    };
    assert_eq!((locked(false), locked(true)), (Ok(false), Ok(true)));
    assert_eq!(locked(false), Ok(false), "the end of the transaction releases them");
}
