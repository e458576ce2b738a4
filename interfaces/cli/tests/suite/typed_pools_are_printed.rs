//! Pools of typed data tell their types and values without the program that made them.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::program::{self, RunResult};
use lode_heap::{
    Access, CellValue, CreateOptions, Durability, LayoutName, OpenOptions, PBox, PCell, PDeque, PMutex,
    PString, PVec, Persist, TypedPool,
};
use lode_index::PMap;
use serde_json::json;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

lode_heap::brand!(ShopPool);

#[derive(CellValue, Clone, Copy)]
enum State {
    Free,
    Sold { for_: u32, tax: Option<(u8, bool)> },
}

#[derive(Persist)]
#[persist(brand = ShopPool)]
#[repr(C)]
struct Item {
    name: PString<ShopPool>,
    state: PCell<State, ShopPool>,
    next: PBox<Item, ShopPool>,
}

#[derive(Persist)]
#[persist(brand = ShopPool)]
#[repr(C)]
struct Shop {
    first: PBox<Item, ShopPool>,
    years: PVec<u16, ShopPool>,
    wishes: PDeque<char, ShopPool>,
    stock: PMap<(u8, String), State, ShopPool>,
}

fn shop() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.pool");
    make_shop(&path);
    (folder, path)
}

/// Makes a pool of typed data: a shop with three items.
pub(crate) fn make_shop(path: &Path) {
    let layout = LayoutName::new("shop").unwrap();
    let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(1 << 20, layout) };
    let pool = TypedPool::<ShopPool>::create(path, &options).unwrap();
    let init = || Shop { first: PBox::null(), years: PVec::new(), wishes: PDeque::new(), stock: PMap::new() };
    let root = pool.root_or_init(|_| Ok(PMutex::new(init()))).unwrap();
    pool.run(|tx| {
        let shop = root.lock(tx)?;
        for name in ["ore", "lode\nstone", "magnet"] {
            let state = PCell::new(State::Sold { for_: 7, tax: Some((19, true)) });
            let item = tx.alloc(Item { name: PString::new(), state, next: PBox::null() })?;
            item.name.set(tx, name)?;
            if let Some(next) = shop.first.take(tx)? {
                item.next.set(tx, next)?;
            }
            shop.first.set(tx, item)?;
        }
        shop.years.extend_from_slice(tx, &[1901, 1902])?;
        shop.wishes.push_back(tx, 'é')?;
        shop.stock.insert(tx, (2, "bolt"), State::Free)?;
        shop.stock.insert(tx, (1, "nut"), State::Sold { for_: 1, tax: None })
    })
    .unwrap();
    pool.close().unwrap();
}

fn with(command: &[&str], path: &Path, options: &[&str]) -> RunResult {
    program::lode(command.iter().copied().chain([path.to_str().unwrap()]).chain(options.iter().copied()))
}

#[test]
fn types_are_printed() {
    let (_folder, path) = shop();
    let text = with(&["pool", "types"], &path, &[]).success();
    let want = "\
struct Shop, 64 bytes, the root
    0  first: PBox<Item>
    8  years: PVec<u16>
   24  wishes: PDeque<char>
   56  stock: PMap<(u8, String), State>

struct Item, 32 bytes
    0  name: PString
   16  state: PCell<State>
   24  next: PBox<Item>

enum State, 8 bytes
       Free = 0
       Sold = 1
    1  for_: u32
    5  tax: Option<(u8, bool)>
";
    assert_eq!(text, want);
    let types = with(&["pool", "types"], &path, &["--json"]).json();
    assert_eq!(types["root"], "PMutex<Shop>");
    let all = types["types"].as_array().unwrap();
    let named = |name: &str| all.iter().find(|ty| ty["name"] == name).unwrap();
    assert_eq!(named("Shop")["fields"][2], json!({ "name": "wishes", "offset": 24, "type": "PDeque<char>" }));
    assert_eq!(named("State")["variants"][1]["fields"][1]["type"], "Option<(u8, bool)>");
    assert_eq!((&named("PBox<Item>")["kind"], &named("PBox<Item>")["of"]), (&json!("box"), &json!("Item")));
    let map = named("PMap<(u8, String), State>");
    assert_eq!(
        (&map["kind"], &map["key"], &map["of"]),
        (&json!("map"), &json!("(u8, String)"), &json!("State"))
    );
    assert!(named("Item")["number"].as_str().unwrap().starts_with("0x"));
}

#[test]
fn values_are_printed_with_their_ways() {
    let (_folder, path) = shop();
    let text = with(&["pool", "dump", "--typed"], &path, &[]).success();
    let state = "Sold { for_: 7, tax: Some((19, true)) }";
    let want = [
        "Shop.years[0] 1901",
        "Shop.years[1] 1902",
        "Shop.wishes[0] 'é'",
        "Shop.stock[(1, \"nut\")] Sold { for_: 1, tax: None }",
        "Shop.stock[(2, \"bolt\")] Free",
        "Shop.first.name \"magnet\"",
        &format!("Shop.first.state {state}"),
        "Shop.first.next.name \"lode\\nstone\"",
        &format!("Shop.first.next.state {state}"),
        "Shop.first.next{2}.name \"ore\"",
        &format!("Shop.first.next{{2}}.state {state}"),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), want);
    for (way, count) in [
        ("Shop", 11),
        ("Shop.stock", 2),
        ("Shop.stock[(2, \"bolt\")]", 1),
        ("Shop.first", 6),
        ("Shop.years", 2),
        ("Shop.years[1]", 1),
        ("Shop.first.next", 4),
        ("Shop.first.next{2}.name", 1),
    ] {
        let found = with(&["pool", "dump", "--typed", "--path", way], &path, &[]).success();
        assert_eq!(found.lines().count(), count, "{way}: {found}");
    }
    let lines = with(&["pool", "dump", "--typed", "--path", "Shop.years[1]", "--json"], &path, &[]).json();
    assert_eq!((&lines["path"], &lines["holds"]), (&json!("Shop.years[1]"), &json!("1902")));
    with(&["pool", "dump", "--typed", "--path", "Shop.year"], &path, &[])
        .failure(1, &["Shop.year", "there is nothing"]);
    with(&["pool", "dump", "--path", "Shop"], &path, &[]).failure(2, &["--typed"]);
}

/// A flipped byte of a value is found, with the way to it; the other values are printed.
#[test]
fn damage_has_its_way() {
    let (_folder, path) = shop();
    assert!(with(&["pool", "check"], &path, &[]).success().contains("no damage"));
    let line = with(&["pool", "dump", "--typed", "--path", "Shop.first.state", "--json"], &path, &[]).json();
    let at = line["at"].as_u64().unwrap();
    File::options().write(true).open(&path).unwrap().write_all_at(&[9], at).unwrap();
    let report = with(&["pool", "check", "--json"], &path, &[]);
    let finding = &report.json()["findings"][0];
    assert_eq!(report.code, Some(3));
    assert_eq!((&finding["path"], &finding["at"]), (&json!("Shop.first.state"), &json!(at)));
    let text = with(&["pool", "dump", "--typed"], &path, &[]).success();
    assert!(text.contains("Shop.first.state DAMAGED: its bytes are no value of its type"), "{text}");
    assert!(text.contains("Shop.first.next{2}.name \"ore\""), "{text}");
}

#[test]
fn other_pools_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kv.pool");
    with(&["pool", "create", "--size", "1MiB", "--durability", "none"], &path, &[]).success();
    for command in [&["pool", "types"][..], &["pool", "dump", "--typed"]] {
        with(command, &path, &["--durability", "none"]).failure(1, &["not typed data"]);
    }
}

/// The trees beside the typed data are printed with their types and entries.
#[test]
fn trees_are_printed() {
    let (_folder, path) = shop();
    let options = OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(Access::ReadWrite) };
    let store = lodestone::typed::TypedStore::<ShopPool>::open(&path, &options).unwrap();
    let names = lodestone::TreeDef::<String, u16>::new("names");
    store.write(|tx| tx.tree(names)?.put("bolt", 7).map(drop)).unwrap();
    store.close().unwrap();
    let text = with(&["pool", "types"], &path, &[]).success();
    assert!(text.ends_with("\n\ntree \"names\": str -> u16\n"), "{text}");
    let types = with(&["pool", "types"], &path, &["--json"]).json();
    assert_eq!(types["trees"], json!([{ "name": "names", "key": "str", "value": "u16" }]));
    let text = with(&["pool", "dump", "--typed"], &path, &[]).success();
    assert!(text.ends_with("\ntree \"names\"[b\"bolt\"] b\"\\x07\\x00\"\n"), "{text}");
    let text = with(&["pool", "dump", "--typed"], &path, &["--path", "tree \"names\""]).success();
    assert_eq!(text, "tree \"names\"[b\"bolt\"] b\"\\x07\\x00\"\n");
    assert!(with(&["pool", "check"], &path, &[]).success().contains("no damage"));
}
