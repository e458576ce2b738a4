//! Each command with valid arguments.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, documented_fields, json_fields, lode, lode_with_stdin, text};
use lode_heap::Pool;
use lode_kv::Store;
use lode_pool::{Access, OpenOptions};
use lode_testing::SmallDisk;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tempfile::TempDir;

#[test]
fn pool_create_info_and_grow() {
    let fixture = PoolFixture::new();
    let info = lode(["pool", "info", fixture.pool(), "--json"]).json();
    assert_eq!(info["layout"], "kv");
    assert_eq!(info["size"], 8 << 20);
    assert_eq!(info["closed"], true);
    lode(["pool", "grow", fixture.pool(), "--size", "16MiB"]).success();
    assert_eq!(lode(["pool", "info", fixture.pool(), "--json"]).json()["size"], 16 << 20);
    assert!(lode(["pool", "check", fixture.pool()]).success().contains("no damage"));
    assert!(lode(["pool", "repair", fixture.pool()]).success().contains("nothing to repair"));
    assert!(lode(["pool", "stats", fixture.pool()]).success().contains("keys     0"));
    assert!(lode(["pool", "dump", fixture.pool()]).success().contains("LdTree"));
}

/// A pool without a size begins small and grows with what is put into it, up to its maximum.
#[test]
fn new_pool_is_small_and_grows() {
    let fixture = PoolFixture::fixed("1MiB");
    let pool = fixture.folder.path().join("small");
    let file_len = || fs::metadata(&pool).unwrap().len();
    let created = lode(["pool", "create", text(&pool), "--json"]).json();
    assert_eq!((&created["size"], &created["size_max"]), (&(256u64 << 10).into(), &(1u64 << 40).into()));
    assert!(file_len() <= 256 << 10, "an empty store takes {} bytes", file_len());
    let value = "v".repeat(100_000);
    let lines: String = (0..200).map(|number| format!("key{number}\t{value}\n")).collect();
    let input = fixture.file("in", &lines);
    lode(["kv", "load", text(&pool), text(&input), "--durability", "none"]).success();
    let mut exported: Vec<String> =
        lode(["kv", "export", text(&pool)]).success().lines().map(str::to_owned).collect();
    exported.sort_by_key(|line| line.split('\t').next().unwrap()[3..].parse::<u32>().unwrap());
    assert!(exported.join("\n") + "\n" == lines, "all lines are there");
    assert!(lode(["pool", "check", text(&pool)]).success().contains("no damage"));
    let info = lode(["pool", "info", text(&pool), "--json"]).json();
    let (size, used) = (info["size"].as_u64().unwrap(), lines.len() as u64);
    assert!(size == file_len() && size < used * 2, "{size} bytes for {used}");
    assert!(info["log_bytes"].as_u64().unwrap() >= size / 32, "the log has {}", info["log_bytes"]);

    let lines: String = (0..20_000).map(|number| format!("key{number}\tvalue {number}\n")).collect();
    let input = fixture.file("many", &lines);
    let refused = lode(["kv", "load", fixture.pool(), text(&input), "--durability", "none"]);
    refused.failure(
        1,
        &["can't grow", "at most 1048576 bytes", "raise this maximum with `lode pool grow --size-max`"],
    );
    lode(["pool", "grow", fixture.pool(), "--size-max", "512KiB"]).failure(1, &["1048576", "524288"]);
    let grown = lode(["pool", "grow", fixture.pool(), "--size-max", "64MiB", "--json"]).json();
    assert_eq!((&grown["size"], &grown["size_max"]), (&(1u64 << 20).into(), &(64u64 << 20).into()));
    lode(["kv", "load", fixture.pool(), text(&input), "--durability", "none"]).success();
}

/// A copy has all that the pool has, in a file that is as large as that needs.
#[test]
fn pool_copy_is_compact() {
    let fixture = PoolFixture::of_size("8MiB");
    let copy = fixture.folder.path().join("copy");
    lode(["kv", "load", fixture.pool(), text(&fixture.file("in", "lode\tstone\nmag\tnet\n"))]).success();
    let copied = lode(["pool", "copy", fixture.pool(), text(&copy), "--json"]).json();
    assert_eq!((&copied["keys"], &copied["size_before"]), (&2.into(), &(8u64 << 20).into()));
    assert_eq!(copied["size"], fs::metadata(&copy).unwrap().len());
    assert!(copied["size"].as_u64().unwrap() <= 256 << 10, "{copied}");
    let export = |pool: &str| lode(["kv", "export", pool]).success();
    assert_eq!(export(text(&copy)), export(fixture.pool()));
    assert!(lode(["pool", "check", text(&copy)]).success().contains("no damage"));
    lode(["pool", "copy", fixture.pool(), text(&copy)]).failure(1, &[text(&copy), "exists"]);
    let nowhere = fixture.folder.path().join("nowhere/copy");
    lode(["pool", "copy", fixture.pool(), text(&nowhere)]).failure(1, &[text(&nowhere)]);
}

/// A pool that was made too large, or lost most of its keys, gives its space back.
#[test]
fn pool_shrinks_to_its_content() {
    let fixture = PoolFixture::of_size("8MiB");
    lode(["kv", "load", fixture.pool(), text(&fixture.file("in", "lode\tstone\nmag\tnet\n"))]).success();
    let exported = lode(["kv", "export", fixture.pool()]).success();
    let disk_before = fs::metadata(fixture.pool()).unwrap().blocks() * 512;
    let shrunk = lode(["pool", "shrink", fixture.pool(), "--json"]).json();
    assert_eq!((&shrunk["size_before"], &shrunk["disk_before"]), (&(8u64 << 20).into(), &disk_before.into()));
    let [size, disk] = ["size", "disk"].map(|field| shrunk[field].as_u64().unwrap());
    assert!(size == fs::metadata(fixture.pool()).unwrap().len() && disk <= 256 << 10, "{shrunk}");
    assert!(lode(["pool", "check", fixture.pool()]).success().contains("no damage"));
    assert_eq!(lode(["kv", "export", fixture.pool()]).success(), exported);
    // It is small already.
    let again = lode(["pool", "shrink", fixture.pool(), "--json"]).json();
    assert_eq!(
        (&again["size_before"], &again["size"], &again["moved"]),
        (&size.into(), &size.into(), &0.into())
    );
    assert!(lode(["pool", "shrink", fixture.pool()]).success().contains("shrunk"));
    lode(["kv", "put", fixture.pool(), "more", "and more"]).success();
    assert_eq!(lode(["kv", "count", fixture.pool()]).success(), "3\n");
}

#[test]
fn shrink_errors_say_what_to_do() {
    let fixture = PoolFixture::of_size("1MiB");
    let (pool, path) = (fixture.pool(), Path::new(fixture.pool()));
    let nowhere = fixture.folder.path().join("nowhere");
    lode(["pool", "shrink", text(&nowhere)])
        .failure(1, &["shrinking a pool", text(&nowhere), "No such file"]);
    let bytes = fixture.file("bytes", "x".repeat(100_000));
    lode(["pool", "shrink", text(&bytes)]).failure(1, &[text(&bytes), "`lode pool create`"]);
    lode(["pool", "shrink", text(fixture.folder.path())]).failure(1, &["neither an ordinary file"]);

    let store = Store::open(path, &OpenOptions::new(Access::ReadWrite)).unwrap();
    let (size, content) = (fs::metadata(path).unwrap().len(), fs::read(path).unwrap());
    lode(["pool", "shrink", pool]).failure(1, &[pool, "in use by", "wait until it is closed"]);
    store.close().unwrap();
    let reader = Pool::open(path, &OpenOptions::new(Access::ReadOnly)).unwrap();
    lode(["pool", "shrink", pool]).failure(1, &[pool, "in use by"]);
    reader.close().unwrap();
    assert_eq!((fs::metadata(path).unwrap().len(), content.len() as u64), (size, size));

    // Only the program that made them knows what refers to objects of its own layout.
    let other = fixture.folder.path().join("other");
    lode(["pool", "create", text(&other), "--size", "4MiB", "--layout", "mine"]).success();
    let before = fs::read(&other).unwrap();
    let wanted = [text(&other), "layout mine can't shrink", "copy its content to a new, smaller pool"];
    lode(["pool", "shrink", text(&other)]).failure(1, &wanted);
    assert_eq!(fs::read(&other).unwrap().len(), before.len());
    assert!(lode(["pool", "check", text(&other)]).success().contains("no damage"));
}

/// A damaged pool keeps its size, and shrinks once it is repaired.
#[test]
fn damaged_pool_does_not_shrink() {
    let fixture = PoolFixture::of_size("1MiB");
    let lines: String = (0..200).map(|key| format!("key{key}\tvalue {key} {}\n", "v".repeat(500))).collect();
    lode(["kv", "load", fixture.pool(), text(&fixture.file("in", lines))]).success();
    for key in 0..150 {
        lode(["kv", "delete", fixture.pool(), &format!("key{key}")]).success();
    }
    let mut bytes = fs::read(fixture.pool()).unwrap();
    let value = b"value 177 ";
    let at = bytes.windows(value.len()).rposition(|window| window == value).unwrap();
    // A repair corrects a single bit.
    bytes[at..at + value.len()].fill(b'?');
    fs::write(fixture.pool(), &bytes).unwrap();
    let wanted = [fixture.pool(), "leaf", "repair it first", "`lode pool check`"];
    lode(["pool", "shrink", fixture.pool()]).failure(3, &wanted);
    assert!(fs::read(fixture.pool()).unwrap() == bytes);
    lode(["pool", "repair", fixture.pool()]).failure(3, &[]);
    let shrunk = lode(["pool", "shrink", fixture.pool(), "--json"]).json();
    assert!(shrunk["size"].as_u64().unwrap() < 512 << 10, "{shrunk}");
    assert_eq!(lode(["kv", "count", fixture.pool()]).success(), "49\n");
}

/// A file that this user may not write is left alone.
#[test]
fn read_only_pool_does_not_shrink() {
    let Some(disk) = SmallDisk::mount("read_only_pool_does_not_shrink", 4 << 20) else { return };
    let path = disk.pool();
    lode(["pool", "create", text(&path), "--size", "1MiB", "--durability", "none"]).success();
    disk.make_read_only();
    lode(["pool", "shrink", text(&path)]).failure(1, &[text(&path), "Read-only file system"]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
}

#[test]
fn other_layouts_reject_kv_commands() {
    let fixture = PoolFixture::new();
    let other = fixture.folder.path().join("other");
    lode(["pool", "create", text(&other), "--size", "1MiB", "--layout", "mine"]).success();
    assert_eq!(lode(["pool", "info", text(&other), "--json"]).json()["layout"], "mine");
    lode(["kv", "count", text(&other)]).failure(1, &["other", "\"mine\"", "\"kv\""]);
    assert!(lode(["pool", "check", text(&other)]).success().contains("no damage"));
}

#[test]
fn a_durability_can_be_forced_and_is_remembered() {
    let fixture = PoolFixture::new();
    let forced = fixture.folder.path().join("forced");
    let created = lode(["pool", "create", text(&forced), "--size", "1MiB", "--durability", "line", "--json"]);
    assert_eq!(created.json()["durability"], "line");
    assert_eq!(lode(["pool", "info", text(&forced), "--json"]).json()["durability_forced"], "line");
    let more = lode(["pool", "info", text(&forced)]).success();
    assert!(more.contains("line: more than the medium was known to keep"), "{more}");
    lode(["kv", "put", fixture.pool(), "k", "v", "--durability", "none"]).success();
    let less = lode(["pool", "info", fixture.pool()]).success();
    assert!(less.contains("none: less than the pool was made for"), "{less}");
    lode(["kv", "put", text(&forced), "k", "v"]).failure(1, &["--durability"]);
    lode(["kv", "put", text(&forced), "k", "v", "--durability", "line"]).success();
    assert_eq!(lode(["kv", "get", text(&forced), "k"]).success(), "v\n");
}

#[test]
fn put_get_and_delete() {
    let fixture = PoolFixture::new();
    let pool = fixture.pool();
    lode(["kv", "put", pool, "stone", "magnetite"]).success();
    assert_eq!(lode(["kv", "get", pool, "stone"]).success(), "magnetite\n");
    assert_eq!(lode(["kv", "put", pool, "stone", "-x\t", "--json"]).json()["replaced"], true);
    assert_eq!(lode(["kv", "get", pool, "stone"]).success(), "-x\t\n");
    assert_eq!(lode(["kv", "count", pool]).success(), "1\n");
    lode(["kv", "delete", pool, "stone"]).success();
    for verb in ["get", "delete"] {
        let missing = lode(["kv", verb, pool, "stone"]);
        assert_eq!((missing.code, missing.out.as_str(), missing.err.as_str()), (Some(1), "", ""));
    }
    assert_eq!(lode(["kv", "count", pool]).success(), "0\n");
}

#[test]
fn scans_respect_byte_order_and_bounds() {
    let fixture = PoolFixture::new();
    let pool = fixture.pool();
    let input = fixture.file("in.tsv", "b\t1\na\t2\nab\t3\n\\xff\t4\nA\n\\t\\n\\\\\tv\\x00\n");
    lode(["kv", "load", pool, text(&input)]).success();
    let all = "\\t\\n\\\\\tv\\x00\nA\t\na\t2\nab\t3\nb\t1\n\\xff\t4\n";
    assert_eq!(lode(["kv", "export", pool]).success(), all);
    assert_eq!(lode(["kv", "scan", pool]).success(), all);
    let scan = |arguments: &[&str]| lode([&["kv", "scan", pool], arguments].concat()).success();
    assert_eq!(scan(&["--prefix", "a"]), "a\t2\nab\t3\n");
    assert_eq!(scan(&["--prefix", "a", "--reverse"]), "ab\t3\na\t2\n");
    assert_eq!(scan(&["--from", "a", "--to", "b"]), "a\t2\nab\t3\n", "--to is exclusive");
    assert_eq!(scan(&["--from", "aa", "--reverse", "--limit", "2"]), "\\xff\t4\nb\t1\n");
    assert_eq!(scan(&["--prefix", "a", "--from", "aa"]), "ab\t3\n", "what lies in both");
    assert_eq!(scan(&["--prefix", "a", "--to", "ab"]), "a\t2\n");
    assert_eq!(scan(&["--prefix", "a", "--from", "A", "--to", "z", "--reverse"]), "ab\t3\na\t2\n");
    assert_eq!(scan(&["--prefix", "b", "--to", "a"]), "");
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(scan(&["--from", "b", "--to", "a"]), "");
}

#[test]
fn export_round_trips_through_load() {
    let fixture = PoolFixture::new();
    let input = fixture.file("in.tsv", "k\tv\n\\xfe\\xff\t\\x00\n\t\nk2\n");
    lode(["kv", "load", fixture.pool(), text(&input)]).success();
    let whole = lode(["kv", "export", fixture.pool()]).success();
    for format in ["tsv", "jsonl"] {
        let exported = lode(["kv", "export", fixture.pool(), "--format", format]).success();
        let other = PoolFixture::new();
        let loaded =
            lode_with_stdin(["kv", "load", other.pool(), "-", "--format", format], exported.as_bytes());
        assert_eq!(loaded.success(), "4 keys put, 0 of them replaced\n");
        assert_eq!(lode(["kv", "export", other.pool()]).success(), whole, "{format}");
    }
}

#[test]
fn load_of_keys_acknowledges_each() {
    let fixture = PoolFixture::new();
    let input = fixture.file("words", "one\ntwo\tthree\n\\x\n");
    let loaded = lode(["kv", "load", fixture.pool(), text(&input), "--format", "keys", "--ack"]).success();
    let acknowledged: BTreeSet<&str> = loaded.lines().collect();
    assert_eq!(acknowledged, BTreeSet::from(["one", "two\\tthree", "\\\\x"]));
    assert_eq!(lode(["kv", "get", fixture.pool(), "two\tthree"]).success(), "\n");
}

/// Lines of a file from another system: what becomes of the CR is said, and it can be left out.
#[test]
fn lines_with_cr_lf_are_reported_or_taken() {
    let fixture = PoolFixture::new();
    let input = fixture.file("in", "a\t1\r\nb\r\nc\t3\n");
    let load = |more: &[&str]| lode(["kv", "load", fixture.pool(), text(&input)].iter().chain(more));
    let kept = load(&[]);
    assert!(kept.err.contains("2 lines end with CR LF") && kept.err.contains("--crlf"), "{kept:?}");
    kept.success();
    assert_eq!(lode(["kv", "get", fixture.pool(), "a"]).success(), "1\r\n");
    assert_eq!(lode(["kv", "count", fixture.pool()]).success(), "3\n");
    let taken = load(&["--crlf", "--json"]).json();
    assert_eq!(
        (&taken["carriage_returns"], &taken["put"]),
        (&0.into(), &3.into()),
        "all of the input is read again"
    );
    assert_eq!(lode(["kv", "get", fixture.pool(), "a"]).success(), "1\n");
    assert_eq!(lode(["kv", "get", fixture.pool(), "b"]).success(), "\n");
    assert_eq!(lode(["kv", "count", fixture.pool()]).success(), "4\n", "a, b, c, and b with a CR");
    // A CR that ends no line stays.
    let input = fixture.file("in", "e\t5\r\r\nf\t6\r");
    let load = ["kv", "load", fixture.pool(), text(&input), "--crlf", "--json"];
    assert_eq!(lode(load).json()["carriage_returns"], 0);
    assert_eq!(lode(["kv", "get", fixture.pool(), "e"]).success(), "5\r\n");
    assert_eq!(lode(["kv", "get", fixture.pool(), "f"]).success(), "6\r\n");
    // White space in JSON.
    let input = fixture.file("in", "{\"key\": \"d\", \"value\": \"4\"}\r\n");
    let load = ["kv", "load", fixture.pool(), text(&input), "--format", "jsonl", "--json"];
    assert_eq!(lode(load).json()["carriage_returns"], 0);
    assert_eq!(lode(["kv", "get", fixture.pool(), "d"]).success(), "4\n");
}

/// A folder can be opened, and not be read: the error names it, and not the pool.
#[test]
fn errors_of_inputs_name_the_input() {
    let fixture = PoolFixture::new();
    let folder = fixture.folder.path();
    let said = lode(["kv", "load", fixture.pool(), text(folder)]).failure(1, &["directory"]);
    assert!(said.contains(text(folder)) && !said.contains(fixture.pool()), "{said}");
}

/// Help is found by the word, too, at each level.
#[test]
fn help_is_a_command() {
    let help = lode(["help", "kv", "load"]).success();
    assert_eq!(help, lode(["kv", "help", "load"]).success());
    assert_eq!(help, lode(["kv", "load", "--help"]).success());
    assert!(help.contains("--crlf"), "{help}");
}

#[test]
fn load_resumes_same_input() {
    let fixture = PoolFixture::new();
    let load = |text: &str| {
        let input = fixture.file("in", text);
        lode(["kv", "load", fixture.pool(), crate::program::text(&input), "--json"]).json()
    };
    assert_eq!(load("a\nb\n")["put"], 2);
    let again = load("a\nb\n");
    assert_eq!((&again["put"], &again["lines_before"]), (&0.into(), &2.into()));
    let longer = load("a\nb\nc\n");
    assert_eq!((&longer["put"], &longer["lines_before"]), (&1.into(), &2.into()), "only what was added");
    assert_eq!(load("a\nB\nc\n")["put"], 3, "the beginning has changed");
    assert_eq!(load("a\nB\nc\nd")["put"], 1);
    assert!(lode(["pool", "repair", fixture.pool()]).success().contains("nothing to repair"));
    assert_eq!(load("a\nB\nc\nd")["lines_before"], 4, "a repair of a sound pool does not forget the load");
    assert_eq!(load("a\nB\nc\ndd\n")["put"], 4, "the last line has grown");
    lode(["kv", "delete", fixture.pool(), "a"]).success();
    assert_eq!(load("a\nB\nc\ndd\n")["put"], 4, "something else has changed the pool");
    assert_eq!(lode(["kv", "get", fixture.pool(), "a"]).success(), "\n");
    // The same from a pipe, which can't be read again when it turns out to be another input.
    let piped =
        |text: &str| lode_with_stdin(["kv", "load", fixture.pool(), "--json"], text.as_bytes()).json();
    assert_eq!(piped("a\nB\nc\ndd\ne\n")["put"], 1);
    assert_eq!(piped("x\nB\nc\ndd\ne\n")["put"], 5);
    assert_eq!(lode(["kv", "count", fixture.pool()]).success(), "8\n", "a b B c d dd e x");
}

#[test]
fn last_line_of_duplicate_key_wins() {
    let fixture = PoolFixture::new();
    let lines: String = (0..20_000).map(|number| format!("key{}\t{number}\n", number % 97)).collect();
    let input = fixture.file("in", lines);
    lode(["kv", "load", fixture.pool(), text(&input), "--threads", "7", "--durability", "none"]).success();
    assert_eq!(lode(["kv", "count", fixture.pool()]).success(), "97\n");
    for key in 0..97u32 {
        let last = (0..20_000).rev().find(|number| number % 97 == key).unwrap();
        let name = format!("key{key}");
        let value = lode(["kv", "get", fixture.pool(), &name, "--durability", "none"]).success();
        assert_eq!(value, format!("{last}\n"));
    }
}

#[test]
fn json_fields_match_help() {
    let fixture = PoolFixture::new();
    let pool = fixture.pool();
    let new = fixture.folder.path().join("new");
    let input = fixture.file("in", "k\tv\n\\xff\t\\xff\n");
    let check = |command: &[&str], runs: &[&[&str]]| {
        let objects: Vec<_> = runs
            .iter()
            .flat_map(|arguments| lode(command.iter().chain(*arguments).chain(&["--json"])).json_lines())
            .collect();
        assert_eq!(json_fields(&without_b64(objects)), documented_fields(command), "{command:?}");
    };
    check(&["pool", "create"], &[&[text(&new), "--size", "1MiB"]]);
    for verb in ["info", "check", "repair", "stats", "dump"] {
        check(&["pool", verb], &[&[pool]]);
    }
    check(&["pool", "grow"], &[&[pool, "--size", "9MiB"]]);
    check(&["pool", "copy"], &[&[pool, text(&fixture.folder.path().join("copy"))]]);
    check(&["pool", "shrink"], &[&[pool]]);
    check(&["kv", "load"], &[&[pool, text(&input), "--ack"]]);
    check(&["kv", "put"], &[&[pool, "k", "v"]]);
    check(&["kv", "get"], &[&[pool, "k"], &[pool, "missing"]]);
    check(&["kv", "count"], &[&[pool]]);
    check(&["kv", "scan"], &[&[pool]]);
    check(&["kv", "export"], &[&[pool]]);
    check(&["kv", "delete"], &[&[pool, "k"], &[pool, "--prefix", "k"]]);
}

/// The objects with `key_b64` called `key`: the help explains both in one line.
fn without_b64(mut objects: Vec<serde_json::Value>) -> Vec<serde_json::Value> {
    for object in &mut objects {
        let fields = object.as_object_mut().unwrap();
        for name in ["key", "value"] {
            if let Some(value) = fields.remove(&format!("{name}_b64")) {
                fields.insert(name.to_owned(), value);
            }
        }
    }
    objects
}

#[test]
fn errors_are_json_with_json_option() {
    let fixture = PoolFixture::new();
    let missing = lode(["kv", "count", "/nowhere/pool", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&missing.err).unwrap();
    assert_eq!((missing.code, &error["code"]), (Some(1), &1.into()));
    assert!(error["error"].as_str().unwrap().contains("/nowhere/pool"));
    let wrong = lode(["kv", "count", fixture.pool(), "--jason", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&wrong.err).unwrap();
    assert_eq!((wrong.code, &error["code"]), (Some(2), &2.into()));
}

#[test]
fn invalid_usage_is_rejected() {
    for arguments in [
        &["pool", "create", "x", "--size", "big"][..],
        &["pool", "grow", "x"],
        &["pool", "create", "x", "--size", "1MiB", "--layout", "a\nb"],
        &["kv", "load", "x", "--threads", "0"],
        &["kv", "scan", "x", "--limit", "-1"],
        &["kv", "get", "x", "k", "--durability", "eternal"],
        &["frobnicate"],
    ] {
        lode(arguments).failure(2, &["error"]);
    }
}

#[test]
fn closed_output_pipe_exits_141() {
    let fixture = PoolFixture::new();
    let lines: String = (0..50_000).map(|number| format!("key{number}\n")).collect();
    let input = fixture.file("in", lines);
    lode(["kv", "load", fixture.pool(), text(&input), "--durability", "none"]).success();
    let mut child = crate::program::command(["kv", "export", fixture.pool()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(141), &[][..]));
}

#[test]
fn completions_and_manual_pages_are_generated() {
    let fixture = PoolFixture::new();
    assert!(lode(["completions", "bash"]).success().contains("_lode"));
    let folder = fixture.folder.path().join("man");
    lode(["manual", text(&folder)]).success();
    let page = fs::read_to_string(folder.join("lode-kv-load.1")).unwrap();
    assert!(page.contains("acknowledged"), "JSON fields are in the page");
}

/// Returns the number that stands before `word` in a line.
fn number_before(line: &str, word: &str) -> u64 {
    line.split(word).next().unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn crash_options_select_exploration() {
    // The others are explored by tests of their own, for longer.
    for engine in ["log", "tree", "isolation"] {
        let arguments = ["crash", engine, "--images", "40", "--seed", "7", "--durability", "line", "--json"];
        let ran = lode(arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let crash = ran.json();
        assert_eq!(json_fields(std::slice::from_ref(&crash)), documented_fields(&["crash"]));
        assert!(crash["images"].as_u64().unwrap() >= 40, "{crash}");
        let machines: BTreeSet<&str> = crash["machines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["machine"].as_str().unwrap())
            .collect();
        assert_eq!(machines, BTreeSet::from(["arm-line", "x86-line"]));
        let again = lode(arguments).json();
        assert_eq!(again["images"], crash["images"], "the same seed explores the same");
    }
    // The last line has the sum of the lines above.
    let text = lode(["crash", "tree", "--images", "40", "--machine", "x86-line"]).success();
    let images: Vec<u64> = text.lines().map(|line| number_before(line, " images")).collect();
    let (total, lines) = images.split_last().unwrap();
    assert!(text.lines().last().unwrap().starts_with("total: "), "{text}");
    assert_eq!((lines.len(), lines.iter().sum::<u64>()), (4, *total), "{text}");
    lode(["crash", "log", "--durability", "none"]).failure(1, &["nothing to explore"]);
}

#[test]
fn demo_kills_verifies_and_measures() {
    let fixture = PoolFixture::new();
    let words: String = (0..3000).map(|number| format!("un{number}\nword{number}\n")).collect();
    let words = fixture.file("words", words);
    let folder = text(fixture.folder.path());
    let arguments = ["demo", "--folder", folder, "--words", text(&words), "--kills", "2", "--json"];
    let ran = lode(arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let demo = ran.json();
    assert_eq!(json_fields(std::slice::from_ref(&demo)), documented_fields(&["demo"]));
    assert_eq!((&demo["words"], &demo["complete"]), (&6000.into(), &true.into()), "{demo}");
    assert_eq!(demo["acknowledged"], 6000);
    assert_eq!(demo["kills"].as_array().unwrap().len(), 2);
    assert_eq!(demo["deleted"], 3000);
    let operations = demo["operations"].as_array().unwrap();
    assert_eq!(operations.len(), 4 * demo["media"].as_array().unwrap().len());
    assert_eq!(lode(["kv", "count", demo["pool"].as_str().unwrap()]).success(), "3000\n");
}

/// A volatile folder is refused without `--durability none`; with it, the whole demo runs there.
#[test]
fn demo_uses_requested_folder() {
    let fixture = TempDir::new_in("/dev/shm").unwrap();
    let words = fixture.path().join("words");
    fs::write(&words, "stone\nlode\nlodestone\n").unwrap();
    let demo = ["demo", "--folder", text(fixture.path()), "--words", text(&words), "--kills", "0", "--json"];
    lode(demo).failure(1, &["lost with the power", "--durability none"]);
    let ran = lode(demo.into_iter().chain(["--durability", "none"])).json();
    assert_eq!((&ran["acknowledged"], &ran["media"][0]["durability"]), (&3.into(), &"none".into()), "{ran}");
}
