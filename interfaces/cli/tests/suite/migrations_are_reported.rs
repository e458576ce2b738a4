//! `lode pool migrate --status` tells what is left of a migration, and its exit status tells a script.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::program::{self, RunResult};
use lode_heap::{
    Access, CreateOptions, Durability, HeapError, LayoutName, Migrate, OpenOptions, PBox, PCell, Persist,
    TypedPool,
};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

lode_heap::brand!(Shop);

mod before {
    use super::{PBox, PCell, Persist, Shop};

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) euros: PCell<u32, Shop>,
        pub(super) tag: PBox<[u64; 2], Shop>,
        pub(super) next: PBox<Item, Shop>,
    }
}

#[derive(Persist)]
#[persist(brand = Shop, name = "Item")]
#[repr(C)]
struct ItemV1 {
    euros: PCell<u32, Shop>,
    tag: PBox<[u64; 2], Shop>,
    next: PBox<Item, Shop>,
}

#[derive(Persist)]
#[persist(brand = Shop, was = ItemV1)]
#[repr(C)]
struct Item {
    cents: PCell<u64, Shop>,
    tag: PBox<[u64; 2], Shop>,
    next: PBox<Item, Shop>,
    /// Makes an item too long for its old place, so that items are converted one by one.
    sold: [u64; 2],
}

impl Migrate<ItemV1> for Item {
    fn migrate(old: ItemV1) -> Result<Item, HeapError> {
        let cents = PCell::new(u64::from(old.euros.into_value()?) * 100);
        Ok(Item { cents, tag: old.tag, next: old.next, sold: [0; 2] })
    }
}

/// Makes a pool with ten items, each with a tag.
fn shop() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.pool");
    let layout = LayoutName::new("shop").unwrap();
    let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(1 << 20, layout) };
    let pool = TypedPool::<Shop>::create(&path, &options).unwrap();
    let item = || before::Item { euros: PCell::new(7), tag: PBox::null(), next: PBox::null() };
    let root = pool.root_or_init(|_| Ok::<_, HeapError>(item())).unwrap();
    for _ in 0..9 {
        pool.run(|tx| {
            let new = tx.alloc(item())?;
            new.tag.set(tx, tx.alloc([1, 2])?)?;
            if let Some(next) = root.next.take(tx)? {
                new.next.set(tx, next)?;
            }
            root.next.set(tx, new)
        })
        .unwrap();
    }
    pool.close().unwrap();
    (folder, path)
}

/// Migrates the pool, and stops after so many transactions.
fn migrate(path: &Path, mut transactions: u64) {
    let options = OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(Access::ReadWrite) };
    let mut pool = TypedPool::<Shop>::open(path, &options).unwrap();
    let _ = catch_unwind(AssertUnwindSafe(|| {
        pool.migrate_in_steps::<Item>(1, &mut |_| {
            transactions -= 1;
            if transactions == 0 {
                resume_unwind(Box::new("stopped"));
            }
        })
    }));
}

fn migrate_status(path: &Path, options: &[&str]) -> RunResult {
    program::lode(["pool", "migrate", path.to_str().unwrap()].into_iter().chain(options.iter().copied()))
}

#[test]
fn status_of_a_stopped_migration() {
    let (_folder, path) = shop();
    let before = migrate_status(&path, &["--status"]).success();
    assert!(before.contains("no migration is under way") && before.contains("10"), "{before}");
    let mut left = Vec::new();
    for _ in 0..3 {
        migrate(&path, 5);
        let status = migrate_status(&path, &["--status", "--json"]);
        assert_eq!(status.code, Some(4));
        let json = status.json();
        let count = |field: &str| json[field].as_u64().unwrap();
        assert_eq!(
            (json["half_migrated"].as_bool(), count("unchanged"), count("damage")),
            (Some(true), 9, 0),
            "{json}"
        );
        assert_eq!(count("remaining") + count("converted"), 10, "{json}");
        left.push(count("remaining"));
        let states: Vec<_> =
            json["types"].as_array().unwrap().iter().map(|ty| (&ty["name"], &ty["state"])).collect();
        let [item, tag] = [json!("Item"), json!("[u64; 2]")];
        let names = [json!("remaining"), json!("converted"), json!("unchanged")];
        assert_eq!(states, [(&item, &names[0]), (&item, &names[1]), (&tag, &names[2])]);
        let text = migrate_status(&path, &["--status"]).out;
        assert!(
            text.contains("a migration is not finished") && text.contains("next: run the program"),
            "{text}"
        );
    }
    // A migration that goes on visits the converted ones again, each in a transaction of its own here.
    assert!(left[0] < 10 && left.is_sorted_by(|one, next| one >= next), "{left:?}");
    assert!(
        program::lode(["pool", "check", path.to_str().unwrap()])
            .success()
            .contains("a migration is not finished")
    );
    migrate(&path, u64::MAX);
    let json = migrate_status(&path, &["--status", "--json"]).json();
    assert_eq!((&json["half_migrated"], &json["unchanged"]), (&json!(false), &json!(19)), "{json}");
}

/// The conversions are code of a program, which the command does not have.
#[test]
fn migration_without_its_program_is_refused() {
    let (_folder, path) = shop();
    migrate_status(&path, &[]).failure(2, &["code of the program", "--status"]);
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("kv.pool");
    program::lode(["pool", "create", other.to_str().unwrap(), "--size", "1MiB", "--durability", "none"])
        .success();
    migrate_status(&other, &["--status"]).failure(1, &["not typed data"]);
}
