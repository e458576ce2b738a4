//! Dropping a tree gives all of its space back, also when readers or transactions still use it.

use crate::place::Place;
use lode_heap::Pool;
use lode_index::{IndexError, Trees};
use lode_pool::{Access, OpenOptions};
use lodestone::{Durability, Result, Store, TreeDef};

const LARGE: TreeDef<u32, Vec<u8>> = TreeDef::new("large");
const OTHER: TreeDef<u32, u32> = TreeDef::new("other");

fn fill(store: &Store, keys: u32) {
    let value = [7; 100];
    store.write(|tx| tx.tree(LARGE)?.append((0..keys).map(|key| (key, value))).map(drop)).unwrap();
}

#[test]
fn tree_is_filled_and_dropped_again_and_again() {
    let place = Place::new();
    let store = place.open();
    let mut sizes = vec![];
    for _ in 0..8 {
        fill(&store, 5_000);
        store.put(OTHER, 1, 1).unwrap();
        assert!(store.write(|tx| tx.drop_tree("large")).unwrap());
        assert!(!store.write(|tx| tx.drop_tree("large")).unwrap());
        sizes.push(store.size());
    }
    assert_eq!(sizes.iter().skip(4).max(), sizes.iter().skip(4).min(), "{sizes:?}");
    assert!(store.get(LARGE, 1).is_err_and(|error| error.is_no_tree()));
    store.close().unwrap();
    // No key of the dropped trees is left.
    place.check(1);
}

#[test]
fn snapshot_still_shows_dropped_tree() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    fill(&store, 3_000);
    let snapshot = store.snapshot()?;
    let tree = snapshot.tree(LARGE)?;
    let mut entries = tree.iter();
    assert_eq!(entries.next().transpose()?, Some((0, vec![7; 100])));
    store.write(|tx| tx.drop_tree("large"))?;
    fill(&store, 10);
    assert_eq!((tree.count()?, tree.get(2_999)?), (3_000, Some(vec![7; 100])));
    assert_eq!(entries.collect::<Result<Vec<_>>>()?.len(), 2_999);
    assert_eq!(store.snapshot()?.tree(LARGE)?.count()?, 10);
    Ok(())
}

#[test]
fn transaction_that_uses_dropped_tree_starts_again() {
    let place = Place::new();
    let store = place.open();
    fill(&store, 10);
    let mut attempts = 0;
    let done = store.write(|tx| {
        attempts += 1;
        let tree = tx.tree(LARGE)?;
        if attempts == 1 {
            std::thread::scope(|scope| {
                scope.spawn(|| store.write(|tx| tx.drop_tree("large")).unwrap());
            });
        }
        tree.put(100, [1; 9])
    });
    assert!(!done.unwrap());
    assert_eq!(attempts, 2);
    // The second attempt made the tree anew.
    assert_eq!(store.snapshot().unwrap().tree(LARGE).unwrap().count().unwrap(), 1);
    store.close().unwrap();
    place.check(1);
}

#[test]
fn handle_of_dropped_tree_fails() {
    let place = Place::new();
    let store = place.open();
    fill(&store, 10);
    store
        .write(|tx| {
            let tree = tx.tree(LARGE)?;
            tx.drop_tree("large")?;
            assert!(tree.put(1, [1; 9]).is_err_and(|error| error.is_no_tree()));
            assert!(tree.get(1).is_err_and(|error| error.is_no_tree()));
            assert!(tree.iter().next().unwrap().is_err_and(|error| error.is_no_tree()));
            tx.tree(LARGE)?.put(1, [1; 9])
        })
        .unwrap();
    store.close().unwrap();
    place.check(1);
}

#[test]
fn full_store_uses_space_of_dropped_tree() {
    let place = Place::new();
    let store = Place::options().size(1 << 20).size_max(1 << 20).open(place.path()).unwrap();
    let filled = |store: &Store| (0..).take_while(|key| store.put(LARGE, *key, [7; 1000]).is_ok()).count();
    let first = filled(&store);
    assert!(first > 100, "{first} keys");
    let error = store.put(LARGE, 1 << 30, [7; 1000]).unwrap_err();
    assert!(error.is_out_of_space(), "{error}");
    store.write(|tx| tx.drop_tree("large")).unwrap();
    let second = filled(&store);
    assert!(second + 20 > first, "{first} keys, and {second} after the drop");
}

/// Drops a tree and gives no space back, as if the power failed right after the commit.
fn drop_without_reclaim(place: &Place, name: &str) {
    let durability = Some(Durability::None);
    let options = OpenOptions { durability, ..OpenOptions::new(Access::ReadWrite) };
    let pool = Pool::open(&place.path(), &options).unwrap();
    let trees = Trees::open(pool.heap(), pool.heap().root().unwrap()).unwrap();
    let dropped = pool.heap().run(|tx| Ok::<_, IndexError>(trees.drop_in(tx, name)?.is_some()));
    assert!(dropped.unwrap());
    pool.close().unwrap();
}

#[test]
fn space_of_interrupted_drop_comes_back() {
    let place = Place::new();
    let store = place.open();
    fill(&store, 3_000);
    store.close().unwrap();
    drop_without_reclaim(&place, "large");
    let reader = Place::options().open_read_only(place.path()).unwrap();
    assert!(reader.snapshot().unwrap().tree_names().unwrap().is_empty());
    drop(reader);
    // Each transaction gives some of it back.
    let store = place.open();
    (0..10).for_each(|key| assert!(!store.put(OTHER, key, 1).unwrap()));
    store.close().unwrap();
    place.check(10);
}

#[test]
fn transaction_without_space_waits_for_interrupted_drop() {
    let place = Place::new();
    let store = Place::options().size(1 << 20).size_max(1 << 20).open(place.path()).unwrap();
    let count = (0..).take_while(|key| store.put(LARGE, *key, [7; 1000]).is_ok()).count() as u32;
    store.close().unwrap();
    drop_without_reclaim(&place, "large");
    // All in one transaction, which finds no space at first.
    let store = place.open();
    let half = (0..count / 2).map(|key| (key, [7; 1000]));
    assert_eq!(store.write(|tx| tx.tree(LARGE)?.append(half.clone())).unwrap(), u64::from(count / 2));
    store.close().unwrap();
    place.check(u64::from(count / 2));
}
