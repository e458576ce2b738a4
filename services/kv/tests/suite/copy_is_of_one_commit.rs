//! A copy has all keys and values of one commit, takes little more space than they do, and is there whole or not at all.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::named::make_named;
use lode_fsck::check_pool;
use lode_heap::{Access, CreateOptions, Durability, OpenOptions};
use lode_index::IndexError;
use lode_kv::{CopyError, CopyEvents, CopySource, KvError, LAYOUT, NamedTrees, Store, StoreReader};
use lode_layout::TREE_CELLS_OFF;
use lode_pool::map_unchecked;
use lode_testing::{SmallDisk, scaled};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Counts the keys, and stops the copy when there are as many.
struct Events {
    copied: Cell<u64>,
    stop_at: u64,
}

impl Events {
    fn new(stop_at: u64) -> Events {
        Events { copied: Cell::new(0), stop_at }
    }
}

impl CopyEvents for Events {
    fn copied(&self, keys: u64) {
        self.copied.set(self.copied.get() + keys);
    }

    fn stopped(&self) -> bool {
        self.copied.get() >= self.stop_at
    }
}

fn create(path: &Path) -> Store {
    let durability = Some(Durability::Commit);
    let options = CreateOptions { durability, ..CreateOptions::new(256 << 10, Store::layout_name()) };
    Store::create(path, &options).unwrap()
}

/// Puts many keys in few transactions.
fn fill(store: &Store, keys: u64, value: &[u8]) {
    let tree = store.tree().unwrap();
    for first in (0..keys).step_by(10_000) {
        let filled: Result<(), IndexError> = store.heap().run(|tx| {
            (first..keys.min(first + 10_000))
                .try_for_each(|key| tree.insert_in(tx, format!("key {key:08}").as_bytes(), value).map(drop))
        });
        filled.unwrap();
    }
}

fn assert_sound(path: &Path) {
    let view = map_unchecked(path, &OpenOptions::new(Access::ReadOnly)).unwrap();
    let report = check_pool(Arc::new(&*view), &[&LAYOUT]);
    assert!(report.is_clean(), "{report}");
}

/// Returns the names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// A writer moves a window of keys, one key a transaction. Each copy has the window of one moment.
#[test]
fn copies_beside_writer_are_of_one_commit() {
    const WINDOW: u64 = 100;
    let folder = tempfile::tempdir().unwrap();
    let store = create(&folder.path().join("pool"));
    fill(&store, 30_000, b"another key");
    let ended = AtomicBool::new(false);
    let key = |number: u64| format!("window {:03}", number % 300);
    let write = || {
        let tree = store.tree().unwrap();
        for number in 0.. {
            let written: Result<(), IndexError> = store.heap().run(|tx| {
                tree.insert_in(tx, key(number).as_bytes(), &number.to_le_bytes())?;
                if number >= WINDOW {
                    tree.delete_in(tx, key(number - WINDOW).as_bytes())?;
                }
                Ok(())
            });
            written.unwrap();
            if ended.load(Ordering::SeqCst) {
                break;
            }
        }
    };
    thread::scope(|scope| {
        let writer = scope.spawn(write);
        for copy in 0..scaled(5).max(3) {
            let path = folder.path().join(format!("copy {copy}"));
            let events = Events::new(u64::MAX);
            let report = store.copy_to(&path, Some(Durability::Commit), &events).unwrap();
            assert_eq!(report.keys, events.copied.get());
            assert_sound(&path);
            let mut copied = Store::open(&path, &OpenOptions::new(Access::ReadWrite)).unwrap();
            assert_eq!(copied.count_proven().unwrap(), report.keys);
            let tree = copied.tree().unwrap();
            let reader = tree.reader();
            let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
            let mut window: Vec<u64> =
                reader.prefix(b"window").map(|entry| number(&entry.unwrap().value)).collect();
            window.sort_unstable();
            assert!(window.len() <= WINDOW as usize && window.windows(2).all(|pair| pair[1] == pair[0] + 1));
            assert!(window.len() == WINDOW as usize || window.first().is_none_or(|first| *first == 0));
            assert_eq!(report.keys, 30_000 + window.len() as u64);
            drop(reader);
            copied.put(b"later", b"change").unwrap();
            copied.close().unwrap();
        }
        assert!(!writer.is_finished(), "the writer does not wait for copies, and no copy ends it");
        ended.store(true, Ordering::SeqCst);
    });
}

/// A pool from which most was removed has a small copy.
#[test]
fn copy_takes_what_is_used_and_a_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let store = create(&path);
    fill(&store, 20_000, &[7; 500]);
    let tree = store.tree().unwrap();
    let removed: Result<bool, IndexError> = store.heap().run(|tx| {
        let mut keys = (0..20_000).filter(|key| key % 10 != 0);
        keys.try_fold(true, |all, key| Ok(all & tree.delete_in(tx, format!("key {key:08}").as_bytes())?))
    });
    assert_eq!(removed, Ok(true));
    let stats = store.heap().stats().unwrap();
    let used: u64 = stats.classes.iter().map(|class| class.used * class.block_size).sum();
    let copy = folder.path().join("copy");
    let report = store.copy_to(&copy, Some(Durability::Commit), &Events::new(u64::MAX)).unwrap();
    assert_eq!(report.keys, 2_000);
    let (before, after) = (fs::metadata(&path).unwrap().len(), fs::metadata(&copy).unwrap().len());
    assert_eq!(after, report.size);
    assert!(after <= used + used / 2 && after < before / 4, "{used} bytes in {before} are copied to {after}");
    assert_sound(&copy);
}

/// No file is left by a copy that was stopped, nor is one replaced.
#[test]
fn copy_that_ends_early_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = create(&folder.path().join("pool"));
    fill(&store, 150_000, b"value");
    let copy = folder.path().join("copy");
    let events = Events::new(1);
    let stopped = store.copy_to(&copy, Some(Durability::Commit), &events);
    assert!(matches!(stopped, Err(CopyError::Stopped)) && events.copied.get() < 150_000, "{stopped:?}");
    assert_eq!(names(folder.path()), ["pool", "pool.sock"], "the open pool, and its socket");
    fs::write(&copy, b"mine").unwrap();
    let exists = store.copy_to(&copy, Some(Durability::Commit), &Events::new(u64::MAX));
    assert!(matches!(exists, Err(CopyError::Target(KvError::Pool(_)))), "{exists:?}");
    assert_eq!(fs::read(&copy).unwrap(), b"mine");
}

#[test]
fn copy_to_full_disk_leaves_nothing() {
    let Some(disk) = SmallDisk::mount("copy_to_full_disk_leaves_nothing", 4 << 20) else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = create(&folder.path().join("pool"));
    fill(&store, 20_000, &[7; 500]);
    let full = store.copy_to(&disk.pool(), Some(Durability::Commit), &Events::new(u64::MAX)).unwrap_err();
    let CopyError::Target(KvError::Pool(error)) = &full else { panic!("{full:?}") };
    assert!(error.to_string().contains("no space") || error.to_string().contains("space left"), "{error}");
    assert!(names(disk.folder()).iter().all(|name| name == "lost+found"), "{:?}", names(disk.folder()));
}

#[test]
fn named_trees_are_copied() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copy] = ["pool", "copy"].map(|name| folder.path().join(name));
    make_named(&path, |_, _| {});
    let source = CopySource::open(&path).unwrap();
    assert_eq!(source.count().unwrap(), 6);
    let events = Events::new(u64::MAX);
    let report = source.copy_to(&copy, Some(Durability::Commit), &events).unwrap();
    assert_eq!((report.keys, events.copied.get()), (6, 6));
    let trees = NamedTrees::open(&copy).unwrap();
    assert_eq!(trees.names().unwrap(), ["left", "right"]);
    let (tree, reader) = trees.get("right").unwrap().unwrap();
    assert_eq!((&*tree.key_type, &*tree.value_type, reader.count_proven().unwrap()), ("u8", "bytes", 3));
    assert_eq!(reader.get_proven(&[2]).unwrap().as_deref(), Some(&b"right"[..]));
    assert_eq!((reader.get_proven(&[3]).unwrap(), reader.load_progress().unwrap()), (None, None));
    assert!(matches!(StoreReader::open(&copy), Err(KvError::TreeNeeded { .. })));
}

/// A tree, or the table of trees, that leads to fewer keys than it has counted is not copied.
#[test]
fn named_trees_without_a_key_are_not_copied() {
    for (place, damaged) in
        ["the number of trees in the table of trees", "the number of keys of a tree"].into_iter().enumerate()
    {
        let folder = tempfile::tempdir().unwrap();
        let [path, copy] = ["pool", "copy"].map(|name| folder.path().join(name));
        make_named(&path, |pool, roots| {
            let cell = roots[place].plus(TREE_CELLS_OFF);
            let changed: Result<(), IndexError> = pool.heap().run(|tx| {
                tx.lock(cell)?;
                tx.store8(cell, 9);
                Ok(())
            });
            changed.unwrap();
        });
        let source = CopySource::open(&path).unwrap();
        let failed = source.copy_to(&copy, Some(Durability::Commit), &Events::new(u64::MAX));
        let Err(CopyError::Source(error)) = &failed else { panic!("{failed:?}") };
        assert!(error.is_damage() && error.to_string().contains(damaged), "{error}");
        let names_the_tree = error.to_string().starts_with("the tree \"right\": ");
        assert_eq!(names_the_tree, place == 1, "{error}");
        assert_eq!(names(folder.path()), ["pool"]);
    }
}
