//! A snapshot of a store shows one commit, in another thread than the one that opened it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::{CreateOptions, Durability};
use lode_kv::Store;
use std::thread;

#[test]
fn later_changes_do_not_show() {
    let folder = tempfile::tempdir().unwrap();
    let options = CreateOptions {
        durability: Some(Durability::None),
        ..CreateOptions::new(1 << 20, Store::layout_name())
    };
    let store = Store::create(&folder.path().join("pool"), &options).unwrap();
    for key in [b"basalt", b"gneiss", b"marble"] {
        store.put(key, b"old").unwrap();
    }
    let snapshot = store.snapshot().unwrap();
    store.put(b"gneiss", b"a longer value than before").unwrap();
    store.delete(b"marble").unwrap();
    store.put(b"schist", b"new").unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            assert_eq!(snapshot.get(b"gneiss").unwrap().as_deref(), Some(&b"old"[..]));
            assert_eq!(snapshot.get(b"schist").unwrap(), None);
            let keys: Vec<_> = snapshot.tree().unwrap().iter().map(|entry| entry.unwrap().key).collect();
            assert_eq!(keys, [b"basalt", b"gneiss", b"marble"]);
        });
    });
    assert_eq!(store.snapshot().unwrap().tree().unwrap().count(), Ok(3));
    store.close().unwrap();
}
