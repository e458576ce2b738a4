//! Threads that read and write at once see each transaction whole or not at all.

use crate::place::Place;
use lode_testing::scaled;
use lodestone::{Result, Store, TreeDef};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const ACCOUNTS: TreeDef<u32, i64> = TreeDef::new("accounts");
const ARCHIVE: TreeDef<u32, i64> = TreeDef::new("archive");
const COUNT: u32 = 64;

/// Moves a sum between two accounts of the two trees.
fn transfer(store: &Store, random: &mut fastrand::Rng) -> Result<()> {
    let (from, to, sum) = (random.u32(..COUNT), random.u32(..COUNT), random.i64(1..9));
    let is_archived = random.bool();
    store.write(|tx| {
        let accounts = tx.tree(ACCOUNTS)?;
        let others = if is_archived { tx.tree(ARCHIVE)? } else { tx.tree(ACCOUNTS)? };
        accounts.update(from, |old| Some(old.unwrap_or(0) - sum))?;
        others.update(to, |old| Some(old.unwrap_or(0) + sum))?;
        Ok(())
    })
}

fn sum(store: &Store) -> Result<i64> {
    store.read(|view| {
        let mut sum = 0;
        for def in [ACCOUNTS, ARCHIVE] {
            if let Some(tree) = view.get_tree(def)? {
                sum += tree.iter().map(|entry| Ok(entry?.1)).sum::<Result<i64>>()?;
            }
        }
        Ok(sum)
    })
}

#[test]
fn transfers_between_trees_keep_the_sum() {
    let place = Place::new();
    let store = place.open();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = [1, 2, 3].map(|seed| {
            let store = store.clone();
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                (0..scaled(1_500)).for_each(|_| transfer(&store, &mut random).unwrap());
            })
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert_eq!(sum(&store).unwrap(), 0);
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(sum(&store).unwrap(), 0);
}

/// One thread makes and drops a tree, others put and get keys of it.
#[test]
fn tree_is_dropped_beside_its_users() {
    let place = Place::new();
    let store = place.open();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..2 {
            let (store, is_done) = (&store, &is_done);
            scope.spawn(move || {
                let mut key = thread;
                while !is_done.load(Ordering::Relaxed) {
                    key += 2;
                    store.put(ACCOUNTS, key % 5_000, 1).unwrap();
                    match store.get(ACCOUNTS, key % 5_000) {
                        Ok(found) => assert!(matches!(found, None | Some(1))),
                        Err(error) => assert!(error.is_no_tree(), "{error}"),
                    }
                }
            });
        }
        for _ in 0..scaled(60) {
            let count = store.write(|tx| tx.tree(ACCOUNTS)?.count()).unwrap();
            let keys = store.write(|tx| Ok(tx.tree(ACCOUNTS)?.iter().count() as u64)).unwrap();
            assert!(count <= 5_000 && keys <= 5_000);
            store.write(|tx| tx.drop_tree("accounts")).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    store.write(|tx| tx.drop_tree("accounts")).unwrap();
    store.close().unwrap();
    place.check(0);
}
