//! `lode pool check`, `lode pool repair` and `lode pool shrink` on stores of the library `lodestone`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::lode;
use lodestone::{Durability, Store, TreeDef};
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

const ACCOUNTS: TreeDef<'_, u64, String> = TreeDef::new("accounts");
const JOBS: TreeDef<'_, String, u64> = TreeDef::new("jobs");
/// The type of trees whose own type is lost.
const FOUND: TreeDef<'_, Vec<u8>, Vec<u8>> = TreeDef::new("lost+found/1");

/// A closed store of two trees.
struct StoreFixture {
    folder: TempDir,
}

impl StoreFixture {
    fn new() -> StoreFixture {
        let fixture = StoreFixture { folder: tempfile::tempdir().unwrap() };
        let store = fixture.open();
        store
            .write(|tx| {
                let (accounts, jobs) = (tx.tree(ACCOUNTS)?, tx.tree(JOBS)?);
                for number in 0..50u64 {
                    accounts.put(number, format!("account {number}"))?;
                    jobs.put(format!("job {number}"), number)?;
                }
                Ok(())
            })
            .unwrap();
        store.close().unwrap();
        fixture
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.lode")
    }

    fn pool(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    fn open(&self) -> Store {
        Store::options().durability(Durability::None).open(self.path()).unwrap()
    }

    /// Overwrites the name of a tree in the table of trees.
    fn damage_name(&self, name: &str) {
        let mut bytes = fs::read(self.path()).unwrap();
        let key = [&[1], name.as_bytes()].concat();
        // The log, which comes first, has the name, too.
        let at = bytes.windows(key.len()).rposition(|bytes| bytes == key).unwrap();
        bytes[at..at + key.len()].fill(0xEE);
        fs::write(self.path(), bytes).unwrap();
    }
}

#[test]
fn sound_stores_need_no_repair() {
    let fixture = StoreFixture::new();
    let told = lode(["pool", "check", &fixture.pool()]).success();
    assert!(told.contains("no damage"), "{told}");
    let told = lode(["pool", "repair", &fixture.pool()]).success();
    assert!(told.contains("nothing to repair"), "{told}");
}

#[test]
fn damaged_store_does_not_shrink() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let fill = |key: u64| format!("a value of key {key}, which is deleted again");
    store
        .write(|tx| (50..5000).try_for_each(|key| tx.tree(ACCOUNTS)?.put(key, fill(key)).map(drop)))
        .unwrap();
    store.write(|tx| (50..5000).try_for_each(|key| tx.tree(ACCOUNTS)?.delete(key).map(drop))).unwrap();
    let before = store.size();
    store.close().unwrap();
    let whole = fs::read(fixture.path()).unwrap();
    fixture.damage_name("accounts");
    let damaged = fs::read(fixture.path()).unwrap();
    let wanted = [&fixture.pool(), "is damaged", "repair it first", "`lode pool check`"];
    lode(["pool", "shrink", &fixture.pool()]).failure(3, &wanted);
    assert!(fs::read(fixture.path()).unwrap() == damaged);

    fs::write(fixture.path(), whole).unwrap();
    let told = lode(["pool", "shrink", "--json", &fixture.pool()]).json();
    let size = told["size"].as_u64().unwrap();
    assert!(told["size_before"] == json!(before) && size < before / 2, "{told}");
    assert!(lode(["pool", "check", &fixture.pool()]).success().contains("no damage"));
    let store = fixture.open();
    assert_eq!(store.size(), size);
    let view = store.snapshot().unwrap();
    assert_eq!(view.tree(ACCOUNTS).unwrap().iter().count(), 50);
    for number in 0..50u64 {
        assert_eq!(view.tree(ACCOUNTS).unwrap().get(number).unwrap(), Some(format!("account {number}")));
        assert_eq!(view.tree(JOBS).unwrap().get(format!("job {number}")).unwrap(), Some(number));
    }
}

#[test]
fn tree_without_a_name_is_found() {
    let fixture = StoreFixture::new();
    fixture.damage_name("accounts");
    let checked = lode(["pool", "check", &fixture.pool()]);
    assert_eq!(checked.code, Some(3), "{checked:?}");
    let repaired = lode(["pool", "repair", &fixture.pool()]);
    assert_eq!(repaired.code, Some(3), "{repaired:?}");
    for part in [
        "lost: names of trees between the start and the end\n",
        "found: a tree without a name, which is \"lost+found/1\" now\n",
        "repaired, what is listed is lost\n",
    ] {
        assert!(repaired.out.contains(part), "{part}: {repaired:?}");
    }
    lode(["pool", "check", &fixture.pool()]).success();
    let again = lode(["pool", "repair", &fixture.pool()]).success();
    assert!(again.contains("nothing to repair"), "{again}");
    let store = fixture.open();
    let view = store.snapshot().unwrap();
    let found = view.tree(FOUND).unwrap();
    for number in 0..50u64 {
        let value = found.get(&number.to_be_bytes()[..]).unwrap().unwrap();
        assert_eq!(value, format!("account {number}").into_bytes());
        assert_eq!(view.tree(JOBS).unwrap().get(format!("job {number}")).unwrap(), Some(number));
    }
    assert_eq!(view.tree_names().unwrap(), ["jobs", "lost+found/1"]);
}

#[test]
fn json_names_what_was_lost_and_found() {
    let fixture = StoreFixture::new();
    fixture.damage_name("jobs");
    let checked = lode(["pool", "check", "--json", &fixture.pool()]);
    assert_eq!((checked.code, &checked.json()["damaged"]), (Some(3), &json!(true)));
    let repaired = lode(["pool", "repair", "--json", &fixture.pool()]);
    assert_eq!(repaired.code, Some(3), "{repaired:?}");
    let told = repaired.json();
    assert_eq!(told["lost_names"], json!([{ "after": null, "before": null }]));
    assert_eq!(told["found_trees"], json!(["lost+found/1"]));
    assert_eq!(
        (&told["lost"], &told["unplaced"], &told["left_alone"]),
        (&json!([]), &json!(0), &json!(false))
    );
}
