//! Each command, as it is meant to be used.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::run::{Place, documented, fields, lode, lode_reading, text};
use std::collections::BTreeSet;
use std::fs;
use tempfile::TempDir;

#[test]
fn pools_are_made_looked_at_and_grown() {
    let place = Place::new();
    let info = lode(["pool", "info", place.pool(), "--json"]).object();
    assert_eq!(info["layout"], "kv");
    assert_eq!(info["size"], 8 << 20);
    assert_eq!(info["closed"], true);
    lode(["pool", "grow", place.pool(), "--size", "16MiB"]).good();
    assert_eq!(lode(["pool", "info", place.pool(), "--json"]).object()["size"], 16 << 20);
    assert!(lode(["pool", "check", place.pool()]).good().contains("no damage"));
    assert!(lode(["pool", "repair", place.pool()]).good().contains("nothing to repair"));
    assert!(lode(["pool", "stats", place.pool()]).good().contains("keys     0"));
    assert!(lode(["pool", "dump", place.pool()]).good().contains("LdTree"));
}

#[test]
fn pools_of_other_layouts_hold_no_keys() {
    let place = Place::new();
    let other = place.folder.path().join("other");
    lode(["pool", "create", text(&other), "--size", "1MiB", "--layout", "mine"]).good();
    assert_eq!(lode(["pool", "info", text(&other), "--json"]).object()["layout"], "mine");
    lode(["kv", "count", text(&other)]).fails(1, &["other", "\"mine\"", "\"kv\""]);
    assert!(lode(["pool", "check", text(&other)]).good().contains("no damage"));
}

#[test]
fn a_durability_can_be_forced_and_is_remembered() {
    let place = Place::new();
    let forced = place.folder.path().join("forced");
    let created = lode(["pool", "create", text(&forced), "--size", "1MiB", "--durability", "line", "--json"]);
    assert_eq!(created.object()["durability"], "line");
    assert_eq!(lode(["pool", "info", text(&forced), "--json"]).object()["durability_forced"], "line");
    let more = lode(["pool", "info", text(&forced)]).good();
    assert!(more.contains("line: more than the medium was known to keep"), "{more}");
    lode(["kv", "put", place.pool(), "k", "v", "--durability", "none"]).good();
    let less = lode(["pool", "info", place.pool()]).good();
    assert!(less.contains("none: less than the pool was made for"), "{less}");
    lode(["kv", "put", text(&forced), "k", "v"]).fails(1, &["--durability"]);
    lode(["kv", "put", text(&forced), "k", "v", "--durability", "line"]).good();
    assert_eq!(lode(["kv", "get", text(&forced), "k"]).good(), "v\n");
}

#[test]
fn keys_are_put_got_and_deleted() {
    let place = Place::new();
    let pool = place.pool();
    lode(["kv", "put", pool, "stone", "magnetite"]).good();
    assert_eq!(lode(["kv", "get", pool, "stone"]).good(), "magnetite\n");
    assert_eq!(lode(["kv", "put", pool, "stone", "-x\t", "--json"]).object()["replaced"], true);
    assert_eq!(lode(["kv", "get", pool, "stone"]).good(), "-x\t\n");
    assert_eq!(lode(["kv", "count", pool]).good(), "1\n");
    lode(["kv", "delete", pool, "stone"]).good();
    for verb in ["get", "delete"] {
        let missing = lode(["kv", verb, pool, "stone"]);
        assert_eq!((missing.code, missing.out.as_str(), missing.err.as_str()), (Some(1), "", ""));
    }
    assert_eq!(lode(["kv", "count", pool]).good(), "0\n");
}

#[test]
fn scans_are_in_byte_order_between_their_bounds() {
    let place = Place::new();
    let pool = place.pool();
    let input = place.file("in.tsv", "b\t1\na\t2\nab\t3\n\\xff\t4\nA\n\\t\\n\\\\\tv\\x00\n");
    lode(["kv", "load", pool, text(&input)]).good();
    let all = "\\t\\n\\\\\tv\\x00\nA\t\na\t2\nab\t3\nb\t1\n\\xff\t4\n";
    assert_eq!(lode(["kv", "export", pool]).good(), all);
    assert_eq!(lode(["kv", "scan", pool]).good(), all);
    let scan = |arguments: &[&str]| lode([&["kv", "scan", pool], arguments].concat()).good();
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
fn what_is_exported_can_be_loaded() {
    let place = Place::new();
    let input = place.file("in.tsv", "k\tv\n\\xfe\\xff\t\\x00\n\t\nk2\n");
    lode(["kv", "load", place.pool(), text(&input)]).good();
    let whole = lode(["kv", "export", place.pool()]).good();
    for format in ["tsv", "jsonl"] {
        let exported = lode(["kv", "export", place.pool(), "--format", format]).good();
        let other = Place::new();
        let loaded = lode_reading(["kv", "load", other.pool(), "-", "--format", format], exported.as_bytes());
        assert_eq!(loaded.good(), "4 keys put, 0 of them replaced\n");
        assert_eq!(lode(["kv", "export", other.pool()]).good(), whole, "{format}");
    }
}

#[test]
fn loads_take_keys_alone_and_acknowledge_each() {
    let place = Place::new();
    let input = place.file("words", "one\ntwo\tthree\n\\x\n");
    let loaded = lode(["kv", "load", place.pool(), text(&input), "--format", "keys", "--ack"]).good();
    let acknowledged: BTreeSet<&str> = loaded.lines().collect();
    assert_eq!(acknowledged, BTreeSet::from(["one", "two\\tthree", "\\\\x"]));
    assert_eq!(lode(["kv", "get", place.pool(), "two\tthree"]).good(), "\n");
}

#[test]
fn loading_again_finishes_the_rest() {
    let place = Place::new();
    let load = |text: &str| {
        let input = place.file("in", text);
        lode(["kv", "load", place.pool(), crate::run::text(&input), "--json"]).object()
    };
    assert_eq!(load("a\nb\n")["put"], 2);
    let again = load("a\nb\n");
    assert_eq!((&again["put"], &again["lines_before"]), (&0.into(), &2.into()));
    let longer = load("a\nb\nc\n");
    assert_eq!((&longer["put"], &longer["lines_before"]), (&1.into(), &2.into()), "only what was added");
    assert_eq!(load("a\nB\nc\n")["put"], 3, "the beginning has changed");
    assert_eq!(load("a\nB\nc\nd")["put"], 1);
    assert!(lode(["pool", "repair", place.pool()]).good().contains("nothing to repair"));
    assert_eq!(load("a\nB\nc\nd")["lines_before"], 4, "a repair of a sound pool does not forget the load");
    assert_eq!(load("a\nB\nc\ndd\n")["put"], 4, "the last line has grown");
    lode(["kv", "delete", place.pool(), "a"]).good();
    assert_eq!(load("a\nB\nc\ndd\n")["put"], 4, "something else has changed the pool");
    assert_eq!(lode(["kv", "get", place.pool(), "a"]).good(), "\n");
    // The same from a pipe, which can't be read again when it turns out to be another input.
    let piped = |text: &str| lode_reading(["kv", "load", place.pool(), "--json"], text.as_bytes()).object();
    assert_eq!(piped("a\nB\nc\ndd\ne\n")["put"], 1);
    assert_eq!(piped("x\nB\nc\ndd\ne\n")["put"], 5);
    assert_eq!(lode(["kv", "count", place.pool()]).good(), "8\n", "a b B c d dd e x");
}

#[test]
fn of_two_lines_with_one_key_the_later_counts() {
    let place = Place::new();
    let lines: String = (0..20_000).map(|number| format!("key{}\t{number}\n", number % 97)).collect();
    let input = place.file("in", lines);
    lode(["kv", "load", place.pool(), text(&input), "--threads", "7", "--durability", "none"]).good();
    assert_eq!(lode(["kv", "count", place.pool()]).good(), "97\n");
    for key in 0..97u32 {
        let last = (0..20_000).rev().find(|number| number % 97 == key).unwrap();
        let name = format!("key{key}");
        let value = lode(["kv", "get", place.pool(), &name, "--durability", "none"]).good();
        assert_eq!(value, format!("{last}\n"));
    }
}

#[test]
fn json_fields_are_those_of_the_help() {
    let place = Place::new();
    let pool = place.pool();
    let new = place.folder.path().join("new");
    let input = place.file("in", "k\tv\n\\xff\t\\xff\n");
    let same = |command: &[&str], runs: &[&[&str]]| {
        let objects: Vec<_> = runs
            .iter()
            .flat_map(|arguments| lode(command.iter().chain(*arguments).chain(&["--json"])).objects())
            .collect();
        assert_eq!(fields(&without_b64(objects)), documented(command), "{command:?}");
    };
    same(&["pool", "create"], &[&[text(&new), "--size", "1MiB"]]);
    for verb in ["info", "check", "repair", "stats", "dump"] {
        same(&["pool", verb], &[&[pool]]);
    }
    same(&["pool", "grow"], &[&[pool, "--size", "9MiB"]]);
    same(&["kv", "load"], &[&[pool, text(&input), "--ack"]]);
    same(&["kv", "put"], &[&[pool, "k", "v"]]);
    same(&["kv", "get"], &[&[pool, "k"], &[pool, "missing"]]);
    same(&["kv", "count"], &[&[pool]]);
    same(&["kv", "scan"], &[&[pool]]);
    same(&["kv", "export"], &[&[pool]]);
    same(&["kv", "delete"], &[&[pool, "k"]]);
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
fn errors_are_json_where_answers_are() {
    let place = Place::new();
    let missing = lode(["kv", "count", "/nowhere/pool", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&missing.err).unwrap();
    assert_eq!((missing.code, &error["code"]), (Some(1), &1.into()));
    assert!(error["error"].as_str().unwrap().contains("/nowhere/pool"));
    let wrong = lode(["kv", "count", place.pool(), "--jason", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&wrong.err).unwrap();
    assert_eq!((wrong.code, &error["code"]), (Some(2), &2.into()));
}

#[test]
fn usage_is_checked() {
    for arguments in [
        &["pool", "create", "x"][..],
        &["pool", "create", "x", "--size", "big"],
        &["pool", "create", "x", "--size", "1MiB", "--layout", "a\nb"],
        &["kv", "load", "x", "--threads", "0"],
        &["kv", "scan", "x", "--limit", "-1"],
        &["kv", "get", "x", "k", "--durability", "eternal"],
        &["frobnicate"],
    ] {
        lode(arguments).fails(2, &["error"]);
    }
}

#[test]
fn nobody_has_to_read_the_output() {
    let place = Place::new();
    let lines: String = (0..50_000).map(|number| format!("key{number}\n")).collect();
    let input = place.file("in", lines);
    lode(["kv", "load", place.pool(), text(&input), "--durability", "none"]).good();
    let mut child = crate::run::command(["kv", "export", place.pool()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(141), &[][..]));
}

#[test]
fn completions_and_manual_pages_come_from_the_arguments() {
    let place = Place::new();
    assert!(lode(["completions", "bash"]).good().contains("_lode"));
    let folder = place.folder.path().join("man");
    lode(["manual", text(&folder)]).good();
    let page = fs::read_to_string(folder.join("lode-kv-load.1")).unwrap();
    assert!(page.contains("acknowledged"), "JSON fields are in the page");
}

#[test]
fn power_cuts_are_explored_as_asked() {
    // The others are explored by tests of their own, for longer.
    for engine in ["log", "tree"] {
        let arguments = ["crash", engine, "--images", "40", "--seed", "7", "--durability", "line", "--json"];
        let ran = lode(arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let crash = ran.object();
        assert_eq!(fields(std::slice::from_ref(&crash)), documented(&["crash"]));
        assert!(crash["images"].as_u64().unwrap() >= 40, "{crash}");
        let machines: BTreeSet<&str> = crash["machines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["machine"].as_str().unwrap())
            .collect();
        assert_eq!(machines, BTreeSet::from(["arm-line", "x86-line"]));
        let again = lode(arguments).object();
        assert_eq!(again["images"], crash["images"], "the same seed explores the same");
    }
    lode(["crash", "log", "--durability", "none"]).fails(1, &["nothing to explore"]);
}

#[test]
fn the_demo_kills_verifies_and_measures() {
    let place = Place::new();
    let words: String = (0..3000).map(|number| format!("un{number}\nword{number}\n")).collect();
    let words = place.file("words", words);
    let folder = text(place.folder.path());
    let arguments = ["demo", "--folder", folder, "--words", text(&words), "--kills", "2", "--json"];
    let ran = lode(arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let demo = ran.object();
    assert_eq!(fields(std::slice::from_ref(&demo)), documented(&["demo"]));
    assert_eq!((&demo["words"], &demo["complete"]), (&6000.into(), &true.into()), "{demo}");
    assert_eq!(demo["acknowledged"], 6000);
    assert_eq!(demo["kills"].as_array().unwrap().len(), 2);
    assert_eq!(demo["deleted"], 3000);
    let operations = demo["operations"].as_array().unwrap();
    assert_eq!(operations.len(), 4 * demo["media"].as_array().unwrap().len());
    assert_eq!(lode(["kv", "count", demo["pool"].as_str().unwrap()]).good(), "3000\n");
}

/// What is lost with the power is refused unless it is asked for, and then it is asked for to the end.
#[test]
fn the_demo_runs_where_it_is_told_to() {
    let place = TempDir::new_in("/dev/shm").unwrap();
    let words = place.path().join("words");
    fs::write(&words, "stone\nlode\nlodestone\n").unwrap();
    let demo = ["demo", "--folder", text(place.path()), "--words", text(&words), "--kills", "0", "--json"];
    lode(demo).fails(1, &["lost with the power", "--durability none"]);
    let ran = lode(demo.into_iter().chain(["--durability", "none"])).object();
    assert_eq!((&ran["acknowledged"], &ran["media"][0]["durability"]), (&3.into(), &"none".into()), "{ran}");
}
