//! `lode pool repair` on typed data: a leak is given back, a lost object is named by its way from the root, values stay.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::program::{self, RunResult};
use crate::typed_pools_are_printed::make_shop;
use lode_heap::{Access, Durability, OpenOptions, Pool, TypedPlace, TypedPointer, TypedSurvey, TypedVisitor};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn shop() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.pool");
    make_shop(&path);
    (folder, path)
}

fn lode(command: &str, path: &Path, options: &[&str]) -> RunResult {
    program::lode(["pool", command, path.to_str().unwrap()].into_iter().chain(options.iter().copied()))
}

fn open(path: &Path, access: Access) -> Pool {
    Pool::open(path, &OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(access) }).unwrap()
}

/// Returns the pointers of the pool by their ways.
fn pointers(path: &Path) -> BTreeMap<String, TypedPointer> {
    struct Pointers(BTreeMap<String, TypedPointer>);
    impl TypedVisitor for Pointers {
        fn object(&mut self, place: &TypedPlace<'_>) -> bool {
            self.0.extend(place.pointer().map(|pointer| (place.path(), pointer)));
            true
        }
        fn damage(&mut self, _: &TypedPlace<'_>, _: lode_heap::TypedDamage) {}
    }
    let mut found = Pointers(BTreeMap::new());
    let pool = open(path, Access::ReadOnly);
    TypedSurvey::open(pool.heap()).unwrap().unwrap().visit(&mut found);
    found.0
}

fn overwrite(path: &Path, at: u64, word: u64) {
    File::options().write(true).open(path).unwrap().write_all_at(&word.to_le_bytes(), at).unwrap();
}

#[test]
fn leak_is_given_back() {
    let (_folder, path) = shop();
    let pool = open(&path, Access::ReadWrite);
    let leak = pool.heap().run(|tx| tx.alloc_zeroed(100, 8, 1)).unwrap();
    pool.close().unwrap();
    let check = lode("check", &path, &[]);
    assert!(check.code == Some(3) && check.out.contains("nothing leads to it"), "{check:?}");
    let repaired = lode("repair", &path, &["--durability", "none"]).success();
    assert!(repaired.contains("given back: the space of 1 objects to which nothing led"), "{repaired}");
    lode("check", &path, &[]).success();
    let pool = open(&path, Access::ReadOnly);
    assert!(pool.heap().object(leak).is_err());
}

#[test]
fn lost_objects_are_named() {
    let (_folder, path) = shop();
    let all = pointers(&path);
    for way in ["Shop.first.name", "Shop.first.next.name"] {
        overwrite(&path, all[way].word().unwrap().get(), 0x0BAD_BAD0_BAD8);
    }
    let result = lode("repair", &path, &["--durability", "none", "--json"]);
    assert_eq!(result.code, Some(3), "data is lost");
    let json = result.json();
    let lost = |way: &str| json!({ "path": way, "type": "PString", "at": 0x0BAD_BAD0_BAD8_u64, "means": "no object is at its place" });
    let found = json["lost_objects"].as_array().unwrap();
    assert_eq!(found.len(), 2);
    assert!(
        found.contains(&lost("Shop.first.name")) && found.contains(&lost("Shop.first.next.name")),
        "{json}"
    );
    let freed: Vec<_> = json["freed"].as_array().unwrap().iter().map(|freed| &freed["type"]).collect();
    assert_eq!(freed, ["PString", "PString"]);
    assert_eq!(json["left_alone"], false);
    lode("check", &path, &[]).success();
    let values = lode("dump", &path, &["--typed"]).success();
    assert!(
        values.contains("Shop.first.name \"\"") && values.contains("Shop.first.next{2}.name \"ore\""),
        "{values}"
    );
}

/// The text names what is lost, and says that values are not invented.
#[test]
fn texts_of_repairs() {
    let (_folder, path) = shop();
    let all = pointers(&path);
    overwrite(&path, all["Shop.first.next{2}"].word().unwrap().get(), 0x0BAD_BAD0_BAD8);
    overwrite(&path, all["Shop.years"].word().unwrap().get() + 8, 1000);
    let result = lode("repair", &path, &["--durability", "none"]);
    let text = result.out.clone();
    assert_eq!(result.code, Some(3));
    for want in [
        "linked: Shop.first.next{2}, Item at ",
        "Shop.years",
        "a repair invents no values, lengths and texts",
    ] {
        assert!(text.contains(want), "{want} is not in {text}");
    }
    let values = lode("dump", &path, &["--typed"]).success();
    assert!(values.contains("Shop.first.next{2}.name \"ore\""), "{values}");
}
