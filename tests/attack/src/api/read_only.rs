//! Attacks on a pool that is open for reading: it refuses each change, and its file stays as it is.

use super::pairs::{Model, compare};
use super::{Outcome, ensure, expect_ok};
use fastrand::Rng;
use lode_heap::{Access, HeapError, OpenOptions};
use lode_kv::Store;
use std::path::Path;

/// Opens the store at `path` for reading, and tries each change.
pub(super) fn attack(path: &Path, model: &Model) -> Outcome {
    let before = expect_ok("read", std::fs::read(path))?;
    let store = expect_ok("open for reading", Store::open(path, &OpenOptions::new(Access::ReadOnly)))?;
    compare(&store, model)?;
    let key = model.keys().next().cloned().unwrap_or_default();
    let tree = expect_ok("tree", store.tree())?;
    let heap = store.heap();
    let refused = |call: &str, is_refused: bool| {
        ensure(is_refused, "read-only", format_args!("{call} in a pool that is open for reading succeeds"))
    };
    refused("put", store.put(b"a new key", b"value").is_err())?;
    refused("put of a key that is there", store.put(&key, b"value").is_err())?;
    refused("insert", tree.insert(b"a new key", b"value").is_err())?;
    refused("update", tree.update(&key, |_| Some(b"value".to_vec())).is_err())?;
    if model.contains_key(&key) {
        refused("delete", store.delete(&key).is_err())?;
    }
    let many = heap.run(|tx| {
        tree.insert_in(tx, b"one", b"1")?;
        tree.insert_in(tx, b"two", b"2")
    });
    refused("a transaction", many.is_err())?;
    let made = heap.run(|tx| tx.alloc_with(&[1, 2, 3], 16, 7));
    refused("alloc", made.is_err())?;
    let stored = heap.run(|tx| {
        tx.store8(tree.root().plus(64), 1);
        Ok::<_, HeapError>(())
    });
    refused("a store", stored.is_err())?;
    refused("grow", store.pool().grow(64 << 20).is_err())?;
    let read = heap.run(|tx| tree.get_in(tx, &key));
    ensure(
        expect_ok("a transaction that reads", read)? == model.get(&key).cloned(),
        "answer",
        "get in a transaction",
    )?;
    compare(&store, model)?;
    match Rng::new().bool() {
        true => expect_ok("close", store.close())?,
        false => drop(store),
    }
    let after = expect_ok("read", std::fs::read(path))?;
    ensure(before == after, "written", "the file of a pool that was open for reading has changed")
}
