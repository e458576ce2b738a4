//! One transaction changes typed data and trees of a pool: both, or neither, for every thread and after every opening.

use crate::place::Place;
use lode_testing::{scaled, seed};
use lodestone::typed::{
    Access, CreateOptions, HeapError, LayoutName, Migrate, OpenOptions, PCell, PVec, Persist, TypedPool,
    TypedStore,
};
use lodestone::{Durability, Error, Result, TreeDef};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

lodestone::typed::brand!(Shop);

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Root {
    items: PVec<u32, Shop>,
    sold: PCell<i64, Shop>,
}

const NAMES: TreeDef<u32, String> = TreeDef::new("names");
const LARGE: TreeDef<u32, Vec<u8>> = TreeDef::new("large");
const ACCOUNTS: TreeDef<u32, i64> = TreeDef::new("accounts");

fn create_options() -> CreateOptions {
    let options = CreateOptions::new(1 << 20, LayoutName::new("shop").unwrap());
    CreateOptions { durability: Some(Durability::None), ..options }
}

fn open_options(access: Access) -> OpenOptions {
    OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(access) }
}

fn init(store: &TypedStore<Shop>) -> &Root {
    store.root_or_init(|_| Ok(Root { items: PVec::new(), sold: PCell::new(0) })).unwrap()
}

fn create(path: &Path) -> TypedStore<Shop> {
    let store = TypedStore::create(path, &create_options()).unwrap();
    init(&store);
    store
}

fn open(path: &Path) -> TypedStore<Shop> {
    TypedStore::open(path, &open_options(Access::ReadWrite)).unwrap()
}

type Model = (Vec<u32>, BTreeMap<u32, BTreeMap<u32, String>>);

/// What a transaction and a snapshot see.
fn content(store: &TypedStore<Shop>) -> Result<Model> {
    let (shop, mut trees) = (init(store), BTreeMap::new());
    let (items, names) = store.write(|tx| Ok((shop.items.to_vec(tx)?, tx.tree_names()?)))?;
    let snapshot = store.snapshot()?;
    assert_eq!(snapshot.tree_names()?, names);
    for name in names {
        let def = TreeDef::<u32, String>::new(&name);
        let of_snapshot = snapshot.tree(def)?.iter().collect::<Result<BTreeMap<_, _>>>()?;
        let of_transaction = store.write(|tx| tx.tree(def)?.iter().collect::<Result<BTreeMap<_, _>>>())?;
        assert_eq!(of_snapshot, of_transaction);
        for (key, value) in &of_snapshot {
            assert_eq!(store.get(def, *key)?.as_ref(), Some(value));
        }
        trees.insert(name.parse().unwrap(), of_snapshot);
    }
    Ok((items, trees))
}

/// Makes a few random changes, in the pool and in the model.
fn change(store: &TypedStore<Shop>, model: &mut Model, random: &mut fastrand::Rng) -> Result<()> {
    let shop = init(store);
    let (start, fails) = (random.clone(), random.u8(..5) == 0);
    let mut changed = model.clone();
    let done = store.write(|tx| {
        // A closure may run again.
        (*random, changed) = (start.clone(), model.clone());
        for _ in 0..random.u32(1..6) {
            let (number, key, text) = (random.u32(..3), random.u32(..40), "x".repeat(random.usize(..40)));
            let name = number.to_string();
            let def = TreeDef::<u32, String>::new(&name);
            match random.u8(..12) {
                0..3 => {
                    shop.items.push(tx, key)?;
                    changed.0.push(key);
                }
                3 => assert_eq!(shop.items.pop(tx)?, changed.0.pop()),
                4 => assert_eq!(tx.drop_tree(&name)?, changed.1.remove(&number).is_some()),
                5..8 => {
                    let was_there = tx.get_tree(def)?.map_or(Ok(false), |tree| tree.delete(key))?;
                    let tree = changed.1.get_mut(&number);
                    assert_eq!(was_there, tree.is_some_and(|tree| tree.remove(&key).is_some()));
                }
                _ => {
                    let old = tx.tree(def)?.insert(key, &text)?;
                    assert_eq!(old, changed.1.entry(number).or_default().insert(key, text));
                }
            }
            for (number, tree) in &changed.1 {
                let found = tx.tree(TreeDef::<u32, String>::new(&number.to_string()))?;
                assert_eq!(
                    found.range(10..20).collect::<Result<Vec<_>>>()?.len(),
                    tree.range(10..20).count()
                );
            }
            assert_eq!(shop.items.to_vec(tx)?, changed.0);
        }
        if fails { Err(Error::other("taken back")) } else { Ok(()) }
    });
    match done {
        Ok(()) => *model = changed,
        Err(error) => assert!(fails && error.is_other(), "{error}"),
    }
    Ok(())
}

#[test]
fn both_match_their_models() -> Result<()> {
    for seed in seed(1)..seed(1) + 4 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let place = Place::new();
        let mut store = create(&place.path());
        let mut model = Model::default();
        for round in 0..scaled(200) {
            change(&store, &mut model, &mut random)?;
            if round % 20 == 0 {
                store.close()?;
                store = open(&place.path());
            }
            assert_eq!(content(&store)?, model);
        }
        store.close()?;
    }
    Ok(())
}

/// Sums go from the cell to a tree, and back, by threads that read both before. Other threads see no sum on its way.
#[test]
fn transfers_between_both_keep_the_sum() {
    let place = Place::new();
    let store = create(&place.path());
    let (shop, is_done) = (init(&store), AtomicBool::new(false));
    let sum = |store: &TypedStore<Shop>| {
        store.write(|tx| {
            let accounts = tx.get_tree(ACCOUNTS)?;
            let entries = accounts.iter().flat_map(|accounts| accounts.iter());
            Ok(shop.sold.get(tx)? + entries.map(|entry| Ok(entry?.1)).sum::<Result<i64>>()?)
        })
    };
    let transfer = |random: &mut fastrand::Rng| {
        let (account, amount) = (random.u32(..8), random.i64(-5..5));
        store.write(|tx| {
            // The first of them makes the table of trees, beside others that do.
            let left = tx.tree(ACCOUNTS)?.update(account, |old| Some(old.unwrap_or(0) + amount))?;
            assert!(left.is_some());
            Ok(shop.sold.set(tx, shop.sold.get(tx)? - amount)?)
        })
    };
    thread::scope(|scope| {
        let writers = [1, 2, 3].map(|seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            scope.spawn(move || (0..scaled(500)).for_each(|_| transfer(&mut random).unwrap()))
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
    assert_eq!(store.snapshot().unwrap().tree_names().unwrap(), ["accounts"]);
}

#[test]
fn failed_closure_changes_neither() -> Result<()> {
    let place = Place::new();
    let store = create(&place.path());
    let shop = init(&store);
    let put = |tx: &lodestone::typed::TypedTransaction<'_, Shop>| {
        shop.items.push(tx, 7)?;
        tx.tree(NAMES)?.put(7, "bolt").map(drop)
    };
    let failed = store.write(|tx| {
        put(tx)?;
        Err::<(), _>(HeapError::InTransaction.into())
    });
    assert!(failed.is_err_and(|error| error.is_in_transaction()));
    assert_eq!((store.run(|tx| shop.items.len(tx))?, store.snapshot()?.tree_names()?.len()), (0, 0));
    store.write(put)?;
    store.close()?;
    let store = open(&place.path());
    assert_eq!(
        (store.run(|tx| init_items(&store).to_vec(tx))?, store.get(NAMES, 7)?),
        (vec![7], Some("bolt".into()))
    );
    Ok(())
}

fn init_items(store: &TypedStore<Shop>) -> &PVec<u32, Shop> {
    &store.root::<Root>().unwrap().unwrap().items
}

/// Deletions that a scan defers are made before the transaction commits.
#[test]
fn removals_of_scans_are_made() -> Result<()> {
    let place = Place::new();
    let store = create(&place.path());
    store.write(|tx| tx.tree(ACCOUNTS)?.append((0..100).map(|key| (key, 1))).map(drop))?;
    store.write(|tx| {
        let even = tx.tree(ACCOUNTS)?.extract_if(.., |key, _| key % 2 == 0);
        assert_eq!(even.take(10).collect::<Result<Vec<_>>>()?.len(), 10);
        Ok(())
    })?;
    let snapshot = store.snapshot()?;
    assert_eq!((snapshot.tree(ACCOUNTS)?.count()?, snapshot.tree(ACCOUNTS)?.get(2)?), (90, None));
    Ok(())
}

#[test]
fn wrong_uses_are_refused() -> Result<()> {
    let place = Place::new();
    let store = TypedStore::<Shop>::create(&place.path(), &create_options())?;
    // Without a root there is no place for the table of trees.
    assert!(store.write(|tx| Ok(tx.get_tree(NAMES)?.is_none()))?);
    let error = store.write(|tx| tx.tree(NAMES).map(drop)).unwrap_err();
    assert!(error.is_no_root() && error.to_string().contains("root_or_init"), "{error}");
    assert!(store.get(NAMES, 1).is_err_and(|error| error.is_no_tree()));
    let shop = init(&store);
    assert!(store.get(NAMES, 1).is_err_and(|error| error.is_no_tree()));
    store.write(|tx| tx.tree(NAMES)?.put(1, "nut").map(drop))?;
    let other = TreeDef::<u32, u32>::new("names");
    assert!(store.get(other, 1).is_err_and(|error| error.is_wrong_type()));
    let error = store.write(|tx| tx.tree(other).map(drop)).unwrap_err();
    assert!(error.is_wrong_type() && error.tree() == Some("names") && error.path().is_some(), "{error}");
    assert!(store.snapshot()?.tree(other).is_err_and(|error| error.is_wrong_type()));
    // A handle of a dropped tree.
    let dropped = store.write(|tx| {
        let names = tx.tree(NAMES)?;
        tx.drop_tree("names")?;
        names.put(2, "bolt").map(drop)
    });
    assert!(dropped.is_err_and(|error| error.is_no_tree()));
    // A transaction inside of another one, of the trees or of typed data.
    let nested = store.write(|_| store.write(|_| Ok(())));
    assert!(nested.is_err_and(|error| error.is_in_transaction()));
    let nested = store.run(|_| Ok(store.write(|_| Ok(())).is_err_and(|error| error.is_in_transaction())));
    assert!(nested? && store.write(|_| Ok(store.get(NAMES, 1).is_err()))?);
    // One of typed data joins.
    store.write(|tx| {
        store.run(|inner| shop.sold.set(inner, 9))?;
        assert_eq!(shop.sold.get(tx)?, 9);
        Ok(())
    })?;
    let snapshot = store.snapshot()?;
    assert!(store.close().is_err_and(|error| error.is_in_use()));
    assert_eq!(snapshot.tree(NAMES)?.get(1)?.as_deref(), Some("nut"));
    // The last one closes the pool, which has nothing to replay then.
    drop(snapshot);
    let pool = TypedPool::<Shop>::open(&place.path(), &open_options(Access::ReadOnly))?;
    assert!(pool.recovery().was_closed);
    Ok(())
}

/// A snapshot of a pool whose first tree is made later has no trees.
#[test]
fn snapshots_keep_their_commit() -> Result<()> {
    let place = Place::new();
    let store = create(&place.path());
    let before = store.snapshot()?;
    store.write(|tx| tx.tree(NAMES)?.put(1, "nut").map(drop))?;
    let with_tree = store.snapshot()?;
    store.write(|tx| {
        tx.rename_tree("names", "words")?;
        tx.tree(TreeDef::<u32, String>::new("words"))?.put(1, "bolt").map(drop)
    })?;
    assert!(before.tree_names()?.is_empty() && before.get_tree(NAMES)?.is_none());
    assert_eq!(with_tree.tree_names()?, ["names"]);
    assert_eq!(with_tree.tree(NAMES)?.get(1)?.as_deref(), Some("nut"));
    Ok(())
}

#[test]
fn dropped_trees_give_their_space_back() -> Result<()> {
    let place = Place::new();
    let store = create(&place.path());
    let mut sizes = BTreeSet::new();
    for round in 0..8 {
        store.write(|tx| tx.tree(LARGE)?.append((0..5_000).map(|key| (key, [7; 100]))).map(drop))?;
        assert!(store.write(|tx| tx.drop_tree("large"))?);
        if round >= 3 {
            sizes.insert(store.header().geometry.size());
        }
    }
    assert_eq!(sizes.len(), 1, "{sizes:?}");
    // The root, its type table, the root object, and the table of trees.
    assert_eq!(store.objects().count(), 4);
    Ok(())
}

/// A pool that is open for reading has its trees, or none.
#[test]
fn read_only_pools_show_their_trees() -> Result<()> {
    let place = Place::new();
    let store = create(&place.path());
    store.close()?;
    let read_only = || TypedStore::<Shop>::open(&place.path(), &open_options(Access::ReadOnly));
    let store = read_only()?;
    assert!(store.snapshot()?.tree_names()?.is_empty());
    assert!(store.write(|tx| tx.tree(NAMES).map(drop)).is_err_and(|error| error.is_read_only()));
    store.close()?;
    let store = open(&place.path());
    store.write(|tx| tx.tree(NAMES)?.put(1, "nut").map(drop))?;
    store.close()?;
    let store = read_only()?;
    assert_eq!(store.get(NAMES, 1)?.as_deref(), Some("nut"));
    assert_eq!(store.write(|tx| tx.tree(NAMES)?.get(1))?.as_deref(), Some("nut"));
    Ok(())
}

#[derive(Persist)]
#[persist(brand = Shop, name = "Root", was = Root)]
#[repr(C)]
struct NewRoot {
    items: PVec<u32, Shop>,
    sold: PCell<i64, Shop>,
    returned: PCell<i64, Shop>,
}

impl Migrate<Root> for NewRoot {
    fn migrate(old: Root) -> std::result::Result<NewRoot, HeapError> {
        Ok(NewRoot { items: old.items, sold: old.sold, returned: PCell::new(0) })
    }
}

#[test]
fn migration_leaves_trees_as_they_are() -> Result<()> {
    let place = Place::new();
    let store = create(&place.path());
    let shop = init(&store);
    store.write(|tx| {
        shop.items.push(tx, 7)?;
        tx.tree(NAMES)?.put(7, "bolt").map(drop)
    })?;
    store.close()?;
    let mut pool = TypedPool::<Shop>::open(&place.path(), &open_options(Access::ReadWrite))?;
    assert_eq!(pool.migrate::<NewRoot>(|_| ())?.converted, 1);
    let store = TypedStore::new(pool)?;
    let shop = store.root::<NewRoot>()?.unwrap();
    store.write(|tx| {
        shop.returned.set(tx, 1)?;
        tx.tree(NAMES)?.put(8, "nut").map(drop)
    })?;
    let names = store.snapshot()?.tree(NAMES)?.iter().collect::<Result<Vec<_>>>()?;
    assert_eq!(names, [(7, "bolt".to_owned()), (8, "nut".to_owned())]);
    assert_eq!(store.run(|tx| shop.items.to_vec(tx))?, [7]);
    Ok(())
}
