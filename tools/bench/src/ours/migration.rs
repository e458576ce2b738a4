//! migrate-1m and check-typed-1m: a list of objects in a pool, migrated to a type with one field more, and checked.

use super::pool;
use crate::clock::lap;
use crate::rounds::median;
use anyhow::{Result, ensure};
use lode_fsck::check_pool;
use lode_heap::{HeapError, Migrate, PBox, PCell, Persist};
use lode_kv::{LAYOUT, Store};
use lode_layout::LayoutName;
use lode_pmem::Durability;
use lode_pool::{Access, CreateOptions, OpenOptions, map_unchecked};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

lode_heap::brand!(
    /// The pool that is migrated.
    Shop
);

/// Bytes of the pool for each object.
const BYTES_PER_OBJECT: u64 = 200;
/// Objects that one transaction makes.
const BATCH: u64 = 1000;

mod before {
    use super::{PBox, PCell, Persist, Shop};

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) number: u64,
        pub(super) price: PCell<u64, Shop>,
        pub(super) next: PBox<Item, Shop>,
    }
}

#[derive(Persist)]
#[persist(brand = Shop, was = ItemV1)]
#[repr(C)]
struct Item {
    number: u64,
    price: PCell<u64, Shop>,
    sold: PCell<u64, Shop>,
    next: PBox<Item, Shop>,
}

#[derive(Persist)]
#[persist(brand = Shop, name = "Item")]
#[repr(C)]
struct ItemV1 {
    number: u64,
    price: PCell<u64, Shop>,
    next: PBox<Item, Shop>,
}

impl Migrate<ItemV1> for Item {
    fn migrate(old: ItemV1) -> Result<Item, HeapError> {
        Ok(Item { number: old.number, price: old.price, sold: PCell::new(0), next: old.next })
    }
}

/// Times of a million objects.
pub(super) struct Times {
    /// A migration, in copies of the pool's bytes that are synced.
    pub(super) migration: f64,
    /// A check of the pool, in checks of a tree with as many keys.
    pub(super) check: f64,
}

/// Migrates and checks pools of `objects` objects, and compares with copies and with the check of the tree in `tree`.
pub(super) fn measure(folder: &Path, objects: u64, rounds: usize) -> Result<Times> {
    let (path, copy, tree) = (folder.join("migrated"), folder.join("copied"), folder.join("tree"));
    let (mut migrations, mut checks) = (Vec::new(), Vec::new());
    fill_tree(&tree, objects)?;
    for _ in 0..rounds {
        let used = fill(&path, objects)?;
        let (of_objects, traced) = lap(1, || check(&path));
        let (of_tree, traced_tree) = lap(1, || check(&tree));
        ensure!(traced? > objects && traced_tree? >= objects, "a check missed objects");
        checks.push(of_objects.cycles as f64 / of_tree.cycles as f64);

        let mut pool = pool::open(&path, Durability::Line, pool::plain)?.typed::<Shop>();
        let (migration, done) = lap(1, || pool.migrate::<Item>(|_| ()));
        ensure!(done?.converted == objects + 1, "an object was left");
        pool.close()?;
        let (copying, copied) = lap(1, || copy_of(&path, used, &copy));
        copied?;
        migrations.push(migration.cycles as f64 / copying.cycles as f64);
        fs::remove_file(&path)?;
        fs::remove_file(&copy)?;
    }
    fs::remove_file(&tree)?;
    Ok(Times { migration: median(&migrations), check: median(&checks) })
}

/// Makes a pool with a list of objects. Returns the bytes that the pool's content takes.
fn fill(path: &Path, objects: u64) -> Result<u64> {
    let pool = pool::create(path, objects * BYTES_PER_OBJECT, Durability::Line, pool::plain)?.typed::<Shop>();
    let item = |number| before::Item { number, price: PCell::new(number), next: PBox::null() };
    let root = pool.root_or_init(|_| Ok(item(objects)))?;
    for first in (0..objects).step_by(BATCH as usize) {
        pool.run(|tx| {
            for number in first..objects.min(first + BATCH) {
                let new = tx.alloc(item(number))?;
                if let Some(next) = root.next.take(tx)? {
                    new.next.set(tx, next)?;
                }
                root.next.set(tx, new)?;
            }
            Ok(())
        })?;
    }
    let stats = pool.stats()?;
    let used = pool.header().geometry.size() - stats.free_chunk_bytes;
    pool.close()?;
    Ok(used)
}

/// Makes a pool with a tree of as many keys.
fn fill_tree(path: &Path, keys: u64) -> Result<()> {
    let mut options = CreateOptions::new(keys * BYTES_PER_OBJECT, LayoutName::new("kv")?);
    options.durability = Some(Durability::Line);
    let store = Store::create(path, &options)?;
    for number in 0..keys {
        store.put(&number.to_be_bytes(), &number.to_le_bytes())?;
    }
    Ok(store.close()?)
}

/// Checks the pool, and returns the number of objects that were reached.
fn check(path: &Path) -> Result<u64> {
    let view = map_unchecked(path, &OpenOptions::new(Access::ReadOnly))?;
    let report = check_pool(Arc::new(view), &[&LAYOUT]);
    ensure!(report.is_clean() && report.traced, "the pool is damaged: {report}");
    Ok(report.counts.reached)
}

/// Copies the first bytes of a file, synced.
fn copy_of(path: &Path, bytes: u64, copy: &Path) -> Result<()> {
    let mut to = File::create(copy)?;
    let copied = io::copy(&mut File::open(path)?.take(bytes), &mut to)?;
    ensure!(copied == bytes, "the file is short");
    to.flush()?;
    Ok(to.sync_all()?)
}
