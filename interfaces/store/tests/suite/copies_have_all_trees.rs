//! A copy has all trees of one commit, takes little more space than they do, and is there whole or not at all.

use crate::at_end::AtEnd;
use crate::place::Place;
use lode_testing::SmallDisk;
use lodestone::{Durability, Error, Result, Store, TreeDef};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const LEFT: TreeDef<u64, u64> = TreeDef::new("left");
const RIGHT: TreeDef<String, Vec<u8>> = TreeDef::new("right");

/// A writer moves keys between trees, in transactions that keep their number.
#[test]
fn copies_beside_writer_are_of_one_commit() -> Result<()> {
    const KEYS: u64 = 20_000;
    let place = Place::new();
    let store = place.open();
    store.write(|tx| {
        tx.tree(RIGHT)?;
        tx.create_tree(TreeDef::<u8, String>::new("empty"))?;
        tx.tree(LEFT)?.append((0..KEYS).map(|key| (key, key)))
    })?;
    let is_ended = AtomicBool::new(false);
    let write = || -> Result<()> {
        for key in (0..KEYS).cycle() {
            store.write(|tx| {
                let (left, right) = (tx.tree(LEFT)?, tx.tree(RIGHT)?);
                match left.remove(key)? {
                    Some(value) => right.put(format!("{key:05}"), value.to_le_bytes())?,
                    None => {
                        right.delete(format!("{key:05}"))?;
                        left.put(key, key)?
                    }
                };
                Ok(())
            })?;
            if is_ended.load(Ordering::SeqCst) {
                break;
            }
        }
        Ok(())
    };
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(write);
        let end = AtEnd(&is_ended);
        for number in 0..5 {
            let path = place.path().with_extension(number.to_string());
            store.copy_to(&path, &Place::options())?;
            let copy = Place::options().open_existing(&path)?;
            copy.read(|view| {
                assert_eq!(view.tree_names()?, ["empty", "left", "right"]);
                let (left, right) = (view.tree(LEFT)?, view.tree(RIGHT)?);
                assert_eq!(left.iter().count() as u64 + right.iter().count() as u64, KEYS);
                assert_eq!(left.count()? + right.count()?, KEYS);
                let mut keys = left.iter().map(|entry| entry.unwrap().0).collect::<Vec<_>>();
                keys.extend(right.iter().map(|entry| entry.unwrap().0.parse::<u64>().unwrap()));
                keys.sort_unstable();
                assert!(keys.into_iter().eq(0..KEYS));
                Ok(())
            })?;
            copy.put(LEFT, KEYS, 0)?;
            copy.close()?;
            place.check_at(&path, KEYS + 1);
        }
        assert!(!writer.is_finished(), "the writer does not wait for copies");
        drop(end);
        writer.join().unwrap()
    })
}

#[test]
fn copy_takes_what_is_used_and_a_step() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    store.write(|tx| {
        tx.tree(RIGHT)?.append((0..20_000).map(|key| (format!("{key:08}"), vec![7; 500]))).map(drop)
    })?;
    store.write(|tx| tx.tree(RIGHT)?.retain(.., |key, _| key.ends_with('0')).map(drop))?;
    let path = place.path().with_extension("copy");
    store.copy_to(&path, &Place::options())?;
    let (before, after) = (store.size(), fs::metadata(&path).map_err(Error::other)?.len());
    assert!(after <= 2 << 20 && after < before / 4, "{before} bytes are copied to {after}");
    Place::options().open_existing(&path)?.close()?;
    place.check_at(&path, 2_000);
    Ok(())
}

#[test]
fn copy_of_store_to_full_disk_leaves_nothing() -> Result<()> {
    let Some(disk) = SmallDisk::mount("copy_of_store_to_full_disk_leaves_nothing", 4 << 20) else {
        return Ok(());
    };
    let place = Place::new();
    let store = place.open();
    store.write(|tx| tx.tree(RIGHT)?.append((0..20_000).map(|key| (format!("{key:08}"), vec![7; 500]))))?;
    let path = disk.folder().join("copy");
    let full = store.copy_to(&path, Store::options().durability(Durability::Commit)).unwrap_err();
    assert!(full.is_out_of_space(), "{full}");
    let left: Vec<_> = fs::read_dir(disk.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "lost+found"), "{left:?}");
    store.close()?;
    place.check(20_000);
    Ok(())
}

#[test]
fn copy_replaces_no_file() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    store.put(LEFT, 1, 1)?;
    let path = place.path().with_extension("copy");
    fs::write(&path, b"mine").map_err(Error::other)?;
    assert!(store.copy_to(&path, &Place::options()).is_err_and(|error| error.is_already_exists()));
    assert_eq!(fs::read(&path).map_err(Error::other)?, b"mine");
    let nowhere = place.path().join("no folder").join("copy");
    assert!(store.copy_to(&nowhere, &Place::options()).is_err());
    store.write(|_| {
        let inside = store
            .copy_to(place.path().with_extension("inside"), Store::options().durability(Durability::None));
        assert!(inside.is_err_and(|error| error.is_in_transaction()));
        Ok(())
    })
}
