//! A store that shrinks keeps its trees, and gives back the space of dropped trees and deleted keys.

use crate::place::Place;
use lode_testing::scaled;
use lodestone::{Result, TreeDef};
use std::thread;

const NAMES: [&str; 3] = ["cold", "warm", "hot"];

fn tree(name: &str) -> TreeDef<'_, u32, Vec<u8>> {
    TreeDef::new(name)
}

fn value(key: u32) -> Vec<u8> {
    vec![key as u8; key as usize % 700]
}

#[test]
fn trees_move_to_free_space() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    let size_of_empty = store.size();
    assert!(size_of_empty <= 256 << 10, "an empty store takes {size_of_empty} bytes");
    store.write(|tx| tx.tree(tree("dropped"))?.append((0..4000).map(|key| (key, value(key)))).map(drop))?;
    for name in NAMES {
        store.write(|tx| tx.tree(tree(name))?.append((0..2000).map(|key| (key, value(key)))).map(drop))?;
    }
    assert!(store.write(|tx| tx.drop_tree("dropped"))?);
    store.write(|tx| {
        for name in NAMES {
            let tree = tx.tree(tree(name))?;
            for key in (0..2000).filter(|key| key % 10 != 0) {
                tree.delete(key)?;
            }
        }
        Ok(())
    })?;
    let before = store.size();
    assert!(Place::options().shrink(place.path()).is_err_and(|error| error.is_in_use()));
    store.close()?;
    let size = Place::options().shrink(place.path())?;
    // 600 keys of 350 bytes.
    assert!(size < 1 << 20 && size * 4 < before, "{size} bytes instead of {before}");
    place.check(600);
    let store = place.open();
    assert_eq!(store.size(), size);
    for name in NAMES {
        let found = store.read(|view| view.tree(tree(name))?.iter().collect::<Result<Vec<_>>>())?;
        assert!(found.into_iter().eq((0..2000).step_by(10).map(|key| (key, value(key)))), "{name}");
    }
    // It grows again.
    store.write(|tx| tx.tree(tree("new"))?.append((0..4000).map(|key| (key, value(key)))).map(drop))?;
    store.close()?;
    place.check(4600);
    assert!(
        Place::options().shrink(place.path().with_extension("none")).is_err_and(|error| error.is_not_found())
    );
    Ok(())
}

/// A snapshot has the store open, so its trees stay where they are until it is dropped.
#[test]
fn open_snapshot_refuses_shrinking() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    store.write(|tx| tx.tree(tree("t"))?.append((0..4000).map(|key| (key, value(key)))).map(drop))?;
    let snapshot = store.snapshot()?;
    store.write(|tx| (1..4000).try_for_each(|key| tx.tree(tree("t"))?.delete(key).map(drop)))?;
    let size = store.size();
    let refused = |result: Result<u64>| {
        let error = result.unwrap_err();
        assert!(error.is_in_use() && error.to_string().contains("in use by this process"), "{error}");
    };
    refused(Place::options().shrink(place.path()));
    assert!(store.close().is_err_and(|error| error.is_in_use()));
    refused(Place::options().shrink(place.path()));
    assert!(
        snapshot
            .tree(tree("t"))?
            .iter()
            .map(|entry| entry.unwrap())
            .eq((0..4000).map(|key| (key, value(key))))
    );
    drop(snapshot);
    let reader = Place::options().open_read_only(place.path())?;
    refused(Place::options().shrink(place.path()));
    reader.close()?;
    assert!(Place::options().shrink(place.path())? < size / 8);
    place.check(1);
    Ok(())
}

/// Threads that open the store, change it and close it again, and one that shrinks it: a call has the store for itself, or
/// is refused.
#[test]
fn shrinking_excludes_writers() {
    let place = Place::new();
    drop(place.open());
    let rounds = scaled(20);
    let shrunk = thread::scope(|scope| {
        for writer in 0..2u32 {
            let place = &place;
            scope.spawn(move || {
                for round in 0..rounds as u32 {
                    let store = retry(|| Place::options().open_existing(place.path()));
                    let keys = (0..50).map(|key| (writer << 20 | (round % 4) << 10 | key, value(key)));
                    let changed = store.write(|tx| {
                        let tree = tx.tree(tree("t"))?;
                        keys.clone().try_for_each(|(key, value)| match round % 2 {
                            0 => tree.put(key, value).map(drop),
                            _ => tree.delete(key ^ 1 << 10).map(drop),
                        })
                    });
                    changed.unwrap();
                    store.close().unwrap();
                }
            });
        }
        (0..rounds).map(|_| retry(|| Place::options().shrink(place.path()))).max()
    });
    assert!(shrunk.is_some_and(|size| size > 0));
    place.check(0);
}

/// Calls until no other thread has the store open.
fn retry<T>(call: impl Fn() -> Result<T>) -> T {
    loop {
        match call() {
            Err(error) if error.is_in_use() => thread::yield_now(),
            result => return result.unwrap(),
        }
    }
}
