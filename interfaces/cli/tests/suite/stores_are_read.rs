//! `lode kv` reads the trees of a store, `lode pool stats` lists them, and `lode pool copy` copies them: closed, in use by
//! another process, and left behind by a killed one.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, lode, lode_with_stdin, text};
use lode_kv::NamedTrees;
use lodestone::{Durability, Store, TreeDef};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const ACCOUNTS: TreeDef<'_, u64, String> = TreeDef::new("accounts");
const STONES: TreeDef<'_, String, String> = TreeDef::new("größe");
/// A tree whose name has control characters, which listings escape, with keys of any bytes.
const ODD: TreeDef<'_, Vec<u8>, Vec<u8>> = TreeDef::new("a\tb\\\u{1}");
const EMPTY: TreeDef<'_, (String, i32), ()> = TreeDef::new("empty");

/// The path of the store, for the process that a test starts.
const PATH: &str = "LODE_TEST_STORE";

/// What `scan` prints of the tree [`ACCOUNTS`].
const ACCOUNT_LINES: [&str; 3] = [
    "\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07\tseven\n",
    "\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x00\ttwo\\nlines\n",
    "\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\tlast\n",
];

struct StoreFixture {
    folder: TempDir,
}

impl StoreFixture {
    fn new() -> StoreFixture {
        StoreFixture { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("test.store")
    }

    fn pool(&self) -> String {
        text(&self.path()).to_owned()
    }

    fn open(&self) -> Store {
        Store::options().durability(Durability::None).open(self.path()).unwrap()
    }

    /// Makes the store, and closes it.
    fn closed() -> StoreFixture {
        let fixture = StoreFixture::new();
        let store = fixture.open();
        fill(&store);
        store.close().unwrap();
        fixture
    }

    /// Overwrites 64 bytes at `from` bytes from the name of a tree in the table of trees.
    fn damage(&self, name: &str, from: isize) {
        let mut bytes = fs::read(self.path()).unwrap();
        let key = [&[1], name.as_bytes()].concat();
        // The log, which comes first, has the name, too.
        let at = bytes.windows(key.len()).rposition(|bytes| bytes == key).unwrap();
        let at = at.checked_add_signed(from).unwrap() & !63;
        bytes[at..at + 64].fill(0xEE);
        fs::write(self.path(), bytes).unwrap();
    }
}

fn fill(store: &Store) {
    let filled = store.write(|tx| {
        tx.create_tree(EMPTY)?;
        let (accounts, stones, odd) = (tx.tree(ACCOUNTS)?, tx.tree(STONES)?, tx.tree(ODD)?);
        accounts.put(7, "seven")?;
        accounts.put(256, "two\nlines")?;
        accounts.put(u64::MAX, "last")?;
        for (stone, size) in [("basalt", "1"), ("gneiss", "2"), ("gypsum", "3"), ("marmor", "größer")] {
            stones.put(stone, size)?;
        }
        odd.put(&b"\0\t\xFF"[..], &b"\xFE"[..])?;
        Ok(())
    });
    filled.unwrap();
}

/// Panics unless all commands that read print what [`fill`] has stored.
#[track_caller]
fn assert_read(pool: &str) {
    let run = |words: &[&str]| lode([&["kv", words[0], pool], &words[1..]].concat());
    let stones = ["--tree", "größe"];
    let with = |words: &[&'static str], tree: &[&'static str]| run(&[words, tree].concat());
    assert_eq!(with(&["get", "gneiss"], &stones).success(), "2\n");
    assert_eq!(with(&["get", "marble"], &stones).code, Some(1));
    assert_eq!(with(&["get", "marble", "--verify"], &stones).code, Some(1));
    assert_eq!(with(&["get", "gneiss", "--json"], &stones).json(), json!({ "found": true, "value": "2" }));
    assert_eq!(with(&["count"], &stones).success(), "4\n");
    assert_eq!(with(&["count"], &["--tree", "empty"]).success(), "0\n");
    assert_eq!(with(&["export"], &["--tree", "empty"]).success(), "");
    assert_eq!(with(&["export"], &stones).success(), "basalt\t1\ngneiss\t2\ngypsum\t3\nmarmor\tgrößer\n");
    assert_eq!(with(&["scan", "--prefix", "g"], &stones).success(), "gneiss\t2\ngypsum\t3\n");
    assert_eq!(with(&["scan", "--from", "c", "--to", "gy"], &stones).success(), "gneiss\t2\n");
    assert_eq!(
        with(&["scan", "--reverse", "--limit", "2", "--verify"], &stones).success(),
        "marmor\tgrößer\ngypsum\t3\n"
    );
    assert_eq!(
        with(&["scan", "--json", "--limit", "1"], &stones).json(),
        json!({ "key": "basalt", "value": "1" })
    );

    let accounts = ["--tree", "accounts", "--escaped"];
    assert_eq!(with(&["export"], &accounts).success(), ACCOUNT_LINES.concat());
    let seven = "\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07";
    assert_eq!(with(&["get", seven], &accounts).success(), "seven\n");
    assert_eq!(
        with(&["scan", "--from", seven, "--prefix", "\\x00"], &accounts).success(),
        ACCOUNT_LINES[..2].concat()
    );
    assert_eq!(with(&["scan", "--to", "\\xff"], &accounts).success(), ACCOUNT_LINES[..2].concat());
    with(&["get", "\\y"], &accounts).failure(2, &["\\y: the backslash at byte 0"]);

    // The name is taken byte for byte, or as it is printed.
    for tree in [&["--tree", "a\tb\\\u{1}"][..], &["--tree", "a\\tb\\\\\\x01", "--escaped"]] {
        assert_eq!(with(&["export"], tree).success(), "\\x00\\t\\xff\t\\xfe\n");
    }
    assert_eq!(
        with(&["get", "\\x00\\t\\xff", "--json"], &["--tree", "a\\tb\\\\\\x01", "--escaped"]).json()["value_b64"],
        "/g=="
    );

    let stats = lode(["pool", "stats", pool]).success();
    let line = |words: &[&str]| stats.lines().any(|line| line.split_whitespace().eq(words.iter().copied()));
    assert!(line(&["keys", "8"]) && line(&["3", "accounts", "u64", "str"]), "{stats}");
    assert!(line(&["1", "a\\tb\\\\\\x01", "bytes", "bytes"]), "{stats}");
    let stats = lode(["pool", "stats", pool, "--json"]).json();
    let tree = |name: &str, keys: u64, key_type: &str, value_type: &str| json!({ "name": name, "keys": keys, "key_type": key_type, "value_type": value_type });
    let trees = json!([
        tree("a\tb\\\u{1}", 1, "bytes", "bytes"),
        tree("accounts", 3, "u64", "str"),
        tree("empty", 0, "(str, i32)", "()"),
        tree("größe", 4, "str", "str"),
    ]);
    assert_eq!((&stats["trees"], &stats["keys"], &stats["load"]), (&trees, &json!(8), &json!(null)));
}

/// Panics unless trees that can't be read are refused, with the names of those that can.
#[track_caller]
fn assert_refused(pool: &str) {
    let names = "\"a\\tb\\\\\\x01\", \"accounts\", \"empty\", \"größe\"; choose one with --tree";
    for words in [&["get", pool, "key"][..], &["scan", pool], &["count", pool], &["export", pool]] {
        let words = [&["kv"], words].concat();
        lode(&words).failure(1, &[pool, "the layout \"store\"", names]);
        lode([&words[..], &["--tree", "stones"]].concat())
            .failure(1, &["there is no tree \"stones\"", names]);
    }
    lode(["kv", "count", pool, "--tree", ""]).failure(1, &["there is no tree \"\"", names]);
    lode(["kv", "count", pool, "--tree", &"n".repeat(100_000)]).failure(1, &["there is no tree", names]);
    let binary: [OsString; 5] =
        ["kv".into(), "count".into(), pool.into(), "--tree".into(), OsStr::from_bytes(b"\xFF").to_owned()];
    lode(binary).failure(1, &["there is no tree \"\\xff\"", names]);
}

#[test]
fn trees_of_closed_store_are_read() {
    let fixture = StoreFixture::closed();
    let before = fs::read(fixture.path()).unwrap();
    assert_read(&fixture.pool());
    assert_refused(&fixture.pool());
    assert!(fs::read(fixture.path()).unwrap() == before, "reading changes nothing");
}

#[test]
fn trees_of_store_in_use_are_read() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    fill(&store);
    assert_read(&fixture.pool());
    assert_refused(&fixture.pool());
    store.put(STONES, "slate", "5").unwrap();
    assert_eq!(lode(["kv", "count", &fixture.pool(), "--tree", "größe"]).success(), "5\n");
    lode(["pool", "copy", &fixture.pool(), &fixture.pool().replace("test", "copy")]).failure(1, &["in use"]);
}

#[test]
#[ignore = "the process that another test starts"]
fn process_with_store() {
    let path = PathBuf::from(std::env::var_os(PATH).expect("started by another test"));
    let store = Store::options().durability(Durability::None).open(path).unwrap();
    fill(&store);
    println!("filled");
    loop {
        std::thread::park();
    }
}

#[test]
fn trees_of_killed_writer_are_read() {
    let fixture = StoreFixture::new();
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stores_are_read::process_with_store", "--ignored", "--nocapture"])
        .env(PATH, fixture.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(writer.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap().ends_with("filled")));
    assert_read(&fixture.pool());
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(fixture.folder.path().join("test.store.sock").exists(), "the socket is left behind");
    assert_eq!(lode(["pool", "info", &fixture.pool(), "--json"]).json()["closed"], false);
    assert_read(&fixture.pool());
    assert_refused(&fixture.pool());
    let copy = fixture.folder.path().join("copy");
    lode(["pool", "copy", &fixture.pool(), text(&copy), "--durability", "none"]).success();
    assert_read(text(&copy));
}

#[test]
fn trees_are_copied() {
    let fixture = StoreFixture::closed();
    let store = fixture.open();
    store
        .write(|tx| {
            tx.tree(ODD)?
                .append((0..20_000u64).map(|key| ([&[1], &key.to_be_bytes()[..]].concat(), vec![7; 100])))
        })
        .unwrap();
    store.write(|tx| tx.tree(ODD)?.retain(.., |key, _| key[0] != 1).map(drop)).unwrap();
    store.close().unwrap();
    let copy = fixture.folder.path().join("copy");
    let arguments = ["pool", "copy", &fixture.pool(), text(&copy), "--durability", "none", "--json"];
    let copied = lode(arguments).json();
    let [before, after] = [fixture.path(), copy.clone()].map(|path| fs::metadata(path).unwrap().len());
    assert_eq!(
        (&copied["keys"], &copied["size_before"], &copied["size"]),
        (&json!(8), &json!(before), &json!(after))
    );
    assert!(after < before / 4, "{copied}");
    assert_read(text(&copy));
    assert!(lode(["pool", "check", text(&copy)]).success().contains("no damage"));
    // The types of the trees are those of the program.
    let store = Store::options().durability(Durability::None).open_existing(&copy).unwrap();
    assert_eq!(store.get(ACCOUNTS, 256).unwrap().as_deref(), Some("two\nlines"));
    lode(arguments).failure(1, &[text(&copy), "exists"]);
}

#[test]
fn stores_are_not_changed() {
    let fixture = StoreFixture::closed();
    let pool = &fixture.pool();
    let parts = [pool, "\"store\", not \"kv\"", "programs change a store", "--tree"];
    lode(["kv", "put", pool, "key", "value"]).failure(1, &parts);
    lode(["kv", "delete", pool, "key"]).failure(1, &parts);
    lode(["kv", "delete", pool, "--prefix", "k"]).failure(1, &parts);
    lode_with_stdin(["kv", "load", pool], b"key\tvalue\n").failure(1, &parts);
    assert_read(pool);
}

#[test]
fn other_layouts_have_no_trees() {
    let fixture = PoolFixture::new();
    let pool = fixture.pool();
    lode(["kv", "put", pool, "\\", "value"]).success();
    let refused = lode(["kv", "count", pool, "--tree", "stones"]);
    refused.failure(1, &[pool, "whose one tree has no name; give none (leave out --tree)"]);
    assert_eq!(lode(["kv", "get", pool, "\\x5c", "--escaped"]).success(), "value\n");
    assert_eq!(lode(["pool", "stats", pool, "--json"]).json()["trees"], json!(null));

    let empty = StoreFixture::new();
    empty.open().close().unwrap();
    lode(["kv", "count", &empty.pool()]).failure(1, &["which has no trees yet"]);
    lode(["kv", "count", &empty.pool(), "--tree", "stones"]).failure(1, &["which has no trees yet"]);
    assert_eq!(lode(["pool", "stats", &empty.pool(), "--json"]).json()["trees"], json!([]));

    let other = fixture.folder.path().join("other.pool");
    lode(["pool", "create", text(&other), "--layout", "other", "--durability", "none"]).success();
    lode(["kv", "count", text(&other)]).failure(1, &["\"other\", not \"kv\""]);
    lode(["kv", "count", text(&other), "--tree", "stones"]).failure(1, &["\"other\", not \"store\""]);
    assert_eq!(lode(["pool", "stats", text(&other), "--json"]).json()["trees"], json!(null));
    let dump = "`lode pool dump --typed`";
    lode(["kv", "count", text(&other), "--tree", "stones"]).failure(1, &[dump]);
    lode(["pool", "copy", text(&other), &empty.pool()])
        .failure(1, &[text(&other), "\"other\"", "\"kv\" and \"store\" are copied", dump]);
}

/// Damage in the table of trees is reported, and ends no command in another way. A tree that the damage does not hide is read.
#[test]
fn damaged_table_is_reported() {
    let fixture = StoreFixture::closed();
    let whole = fs::read(fixture.path()).unwrap();
    let pool = &fixture.pool();
    let copy = fixture.folder.path().join("copy");
    fixture.damage("accounts", 0);
    for words in [
        &["kv", "count", pool, "--tree", "accounts"][..],
        &["kv", "get", pool, "key", "--tree", "accounts"],
        &["kv", "scan", pool, "--tree", "accounts"],
        &["kv", "export", pool, "--tree", "accounts"],
        &["kv", "count", pool],
        &["pool", "stats", pool],
        &["pool", "copy", pool, text(&copy), "--durability", "none"],
    ] {
        lode(words).failure(3, &[pool, "damaged", "`lode pool check`"]);
    }
    assert!(!copy.exists());
    fs::write(fixture.path(), &whole).unwrap();
    let undamaged = |words: &[&str]| lode(words).success();
    let stats = undamaged(&["pool", "stats", pool]);
    for name in ["accounts", "größe", "empty"] {
        let export = ["kv", "export", pool, "--tree", name];
        let count = ["kv", "count", pool, "--tree", name];
        fs::write(fixture.path(), &whole).unwrap();
        let (exported, counted) = (undamaged(&export), undamaged(&count));
        for from in (-256..=256).step_by(64) {
            fs::write(fixture.path(), &whole).unwrap();
            fixture.damage(name, from);
            for (words, whole) in [
                (&export[..], Some(&exported)),
                (&count, Some(&counted)),
                (&["pool", "stats", pool], Some(&stats)),
                (&["pool", "copy", pool, text(&copy), "--durability", "none"], None),
            ] {
                let run = lode(words);
                assert!(!run.err.contains("panicked"), "{name} {from}: {run:?}");
                match run.code {
                    Some(0) => assert!(whole.is_none_or(|whole| run.out == *whole), "{name} {from}: {run:?}"),
                    code => assert_eq!(code, Some(3), "{name} {from}: {run:?}"),
                }
            }
            // A copy is whole, or not there.
            if copy.exists() {
                assert_eq!(lode(["pool", "stats", text(&copy), "--json"]).json()["keys"], 8, "{name} {from}");
                fs::remove_file(&copy).unwrap();
            }
        }
    }
}

/// A tree that damage hides from lookups is no tree that is absent: in a closed store, and as the writer serves it.
#[test]
fn hidden_tree_is_reported() {
    let fixture = StoreFixture::closed();
    let pool = &fixture.pool();
    let whole = fs::read(fixture.path()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(fixture.path()).unwrap();
    let zero = |at: usize| file.write_all_at(&[0; 8], at as u64).unwrap();
    let restore = |at: usize| file.write_all_at(&whole[at..at + 8], at as u64).unwrap();
    let words = (0..whole.len()).step_by(8).filter(|at| whole[*at..at + 8] != [0; 8]);
    let hiding: Vec<_> = words
        .filter(|at| {
            zero(*at);
            let hides = NamedTrees::open(&fixture.path())
                .is_ok_and(|trees| matches!(trees.get("accounts"), Ok(None)));
            restore(*at);
            hides
        })
        .collect();
    assert!(!hiding.is_empty());
    let mut served = 0;
    for writer in [None, Some(())] {
        let store = writer.map(|()| fixture.open());
        for at in &hiding {
            // The writer has changed words since, such as those that say that the store is in use.
            if fs::read(fixture.path()).unwrap()[*at..at + 8] != whole[*at..at + 8] {
                continue;
            }
            zero(*at);
            for words in [
                &["kv", "get", pool, "key", "--verify", "--tree", "accounts"][..],
                &["kv", "count", pool, "--tree", "accounts"],
                &["pool", "stats", pool],
            ] {
                let run = lode(words);
                served += usize::from(store.is_some() && run.code == Some(3));
                // The writer has read the root of the pool before.
                let is_read = store.is_some() && run.code == Some(0);
                assert!(is_read || run.code == Some(3), "{at:#x}: {run:?}");
            }
            restore(*at);
        }
    }
    assert!(served >= 3);
}

/// Damage in a tree is skipped by scans, which end with 3, as in the layout kv.
#[test]
fn damaged_tree_is_reported() {
    let fixture = StoreFixture::closed();
    let pool = &fixture.pool();
    let mut bytes = fs::read(fixture.path()).unwrap();
    let at = bytes.windows(6).rposition(|bytes| bytes == b"gneiss").unwrap();
    bytes[at] ^= 1;
    fs::write(fixture.path(), bytes).unwrap();
    let tree = ["--tree", "größe"];
    let run = lode([&["kv", "export", pool][..], &tree].concat());
    assert_eq!(run.out, "basalt\t1\ngypsum\t3\nmarmor\tgrößer\n");
    run.failure(3, &["keys after basalt and before gypsum are skipped", "damage in 1 places"]);
    lode([&["kv", "get", pool, "gneiss"][..], &tree].concat()).failure(3, &["damaged"]);
    assert_eq!(lode(["kv", "count", pool, "--tree", "accounts"]).success(), "3\n");
    let copy = fixture.folder.path().join("copy");
    lode(["pool", "copy", pool, text(&copy), "--durability", "none"]).failure(3, &[pool, "is damaged"]);
    assert!(!copy.exists());
}
