//! What would change a store that was opened for reading is an error, and what only reads works, in a pool without a
//! tree too.
//!
//! Post-mortem. `Store::put` returned `Ok`, and the key was in a private view, gone with the handle. A
//! first fix refused all transactions, and with them the opening of a pool whose tree a repair had lost, since that
//! made an empty tree in the view.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::unheard::Unheard;
use lode_heap::{Access, CreateOptions, Durability, HeapError, OpenError, OpenOptions, Pool};
use lode_index::{IndexError, Tree};
use lode_kv::{Format, Input, KvError, LineEnd, LoadOptions, OnError, Store, Transactions};
use std::fs;
use std::io::{Seek as _, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;

fn creating() -> CreateOptions {
    CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(1 << 20, Store::layout_name()) }
}

fn reading() -> OpenOptions {
    OpenOptions::new(Access::ReadOnly)
}

fn refused<T: std::fmt::Debug>(result: Result<T, KvError>) {
    assert!(matches!(result, Err(KvError::Index(IndexError::Heap(HeapError::ReadOnly)))), "{result:?}");
}

fn lines(text: &str) -> Input<'static> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    Input::new(file)
}

/// Tries all changes on the store at `path`, which are refused, and reads `pairs` from it.
fn only_reads(path: &Path, pairs: &[(&[u8], &[u8])]) {
    let before = fs::read(path).unwrap();
    let mut store = Store::open(path, &reading()).unwrap();
    for round in 0..2 {
        assert_eq!(store.count().unwrap(), pairs.len() as u64, "{round}");
        for (key, value) in pairs {
            assert_eq!(store.get(key).unwrap().as_deref(), Some(*value), "{round}");
        }
        assert_eq!(store.get(b"new").unwrap(), None);
        assert_eq!(store.load_progress().unwrap(), None);
        let tree = store.tree().unwrap();
        let reader = tree.reader();
        let found: Vec<_> = reader.iter().map(|entry| entry.unwrap().key).collect();
        assert_eq!(found, pairs.iter().map(|(key, _)| key.to_vec()).collect::<Vec<_>>());
        assert_eq!(reader.range(&b"a"[..]..).rev().count(), pairs.len());
        assert_eq!(reader.prefix(b"new").count(), 0);
        assert_eq!(
            tree.check(|finding| assert!(matches!(finding, lode_index::Finding::Object(_)))),
            found.len() as u64
        );
        let seen = store.heap().run(|tx| tree.get_in(tx, b"new"));
        assert_eq!(seen, Ok(None), "a transaction that only reads");
        drop(reader);

        refused(store.put(b"new", b"value"));
        refused(store.put(b"", &[7; 40_000]));
        refused(store.delete(b"new"));
        refused(store.delete(b"key"));
        assert_eq!(store.tree().unwrap().insert(b"new", b"value"), Err(HeapError::ReadOnly.into()));
        let updated = store.tree().unwrap().update(b"key", |_| Some(b"8 bytes.".to_vec()));
        assert_eq!(updated, Err(HeapError::ReadOnly.into()));
        let made = store.heap().run(Tree::create);
        assert_eq!(made, Err(HeapError::ReadOnly.into()));
        let options = LoadOptions {
            format: Format::Tsv,
            line_end: LineEnd::Lf,
            on_error: OnError::Stop,
            transactions: Transactions::OfOneLine { threads: NonZeroUsize::MIN },
        };
        refused(store.load(lines("new\tvalue\n"), &options, &Unheard));
        refused(store.load(lines(""), &options, &Unheard));
    }
    let grown = store.pool().grow(4 << 20);
    assert!(matches!(grown, Err(OpenError::Pool(_))), "{grown:?}");
    store.close().unwrap();
    assert!(fs::read(path).unwrap() == before, "the file has changed");
}

#[test]
fn read_only_store_with_and_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let store = Store::create(&path, &creating()).unwrap();
    store.close().unwrap();
    only_reads(&path, &[]);
    let store = Store::open(
        &path,
        &OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(Access::ReadWrite) },
    );
    let store = store.unwrap();
    store.put(b"key", b"value").unwrap();
    store.put(b"long", &[5; 3000]).unwrap();
    // The log is replayed into the view.
    drop(store);
    only_reads(&path, &[(b"key", b"value"), (b"long", &[5; 3000])]);
}

#[test]
fn read_only_pool_without_tree() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    Pool::create(&path, &creating()).unwrap().close().unwrap();
    only_reads(&path, &[]);
    // One that writes makes the tree.
    let writing = OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(Access::ReadWrite) };
    let store = Store::open(&path, &writing).unwrap();
    store.put(b"key", b"value").unwrap();
    store.close().unwrap();
    only_reads(&path, &[(b"key", b"value")]);
}
