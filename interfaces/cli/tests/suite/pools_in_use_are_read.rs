//! A pool that another process has open is read by `get`, `scan`, `count`, `export`, `info` and `stats`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, command, lode, lode_with_stdin};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};

/// Starts a load that acknowledges these lines and waits for others.
fn start_load(fixture: &PoolFixture, lines: &[&str]) -> (Child, ChildStdin) {
    // The pipe is compared with this first, and what was read for that is loaded without waiting for more.
    lode_with_stdin(["kv", "load", fixture.pool()], b"x\n").success();
    let mut load = command(["kv", "load", fixture.pool(), "--ack"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = load.stdin.take().unwrap();
    let mut acknowledged = BufReader::new(load.stdout.take().unwrap()).lines();
    for line in lines {
        writeln!(input, "{line}").unwrap();
        assert!(acknowledged.next().unwrap().is_ok());
    }
    (load, input)
}

#[test]
fn commands_read_while_a_load_writes() {
    let fixture = PoolFixture::new();
    let (mut load, input) = start_load(&fixture, &["basalt\t1", "gneiss\t2", "gypsum\t3"]);
    let pool = fixture.pool();
    assert_eq!(lode(["kv", "get", pool, "gneiss"]).success(), "2\n");
    assert_eq!(lode(["kv", "get", pool, "marble"]).code, Some(1));
    assert_eq!(lode(["kv", "get", pool, "marble", "--verify"]).code, Some(1));
    assert_eq!(lode(["kv", "get", pool, "x", "--json"]).json()["found"], true);
    assert_eq!(lode(["kv", "count", pool]).success(), "4\n");
    assert_eq!(lode(["kv", "export", pool]).success(), "basalt\t1\ngneiss\t2\ngypsum\t3\nx\t\n");
    assert_eq!(lode(["kv", "scan", pool, "--prefix", "g"]).success(), "gneiss\t2\ngypsum\t3\n");
    assert_eq!(
        lode(["kv", "scan", pool, "--reverse", "--limit", "2", "--verify"]).success(),
        "x\t\ngypsum\t3\n"
    );
    assert_eq!(lode(["kv", "scan", pool, "--from", "c", "--to", "gy", "--json"]).json()["key"], "gneiss");
    let info = lode(["pool", "info", pool, "--json"]).json();
    assert_eq!(
        (&info["layout"], &info["closed"], &info["snapshots"]),
        (&"kv".into(), &false.into(), &1.into())
    );
    assert!(info["snapshot_memory"].is_u64() && info["snapshot_space"].is_u64(), "{info}");
    let text = lode(["pool", "info", pool]).success();
    assert!(
        text.contains("open for writing in another process; open snapshots: 1, which keep back"),
        "{text}"
    );
    let stats = lode(["pool", "stats", pool, "--json"]).json();
    assert_eq!((&stats["keys"], &stats["size"]), (&4.into(), &info["size"]));
    assert!(stats["load"]["lines"].is_u64(), "{stats}");
    // What changes the pool, or needs it whole, is refused.
    let holder = load.id().to_string();
    lode(["kv", "put", pool, "a", "b"]).failure(1, &["in use", &holder]);
    lode(["pool", "check", pool]).failure(1, &["in use", &holder]);
    drop(input);
    assert!(load.wait().unwrap().success());
    let info = lode(["pool", "info", pool, "--json"]).json();
    assert_eq!((&info["closed"], &info["snapshots"]), (&true.into(), &serde_json::Value::Null));
}

#[test]
fn pool_of_a_killed_load_is_read() {
    let fixture = PoolFixture::new();
    let (mut load, _input) = start_load(&fixture, &["basalt\t1"]);
    load.kill().unwrap();
    load.wait().unwrap();
    assert_eq!(lode(["kv", "export", fixture.pool()]).success(), "basalt\t1\nx\t\n");
    lode(["kv", "put", fixture.pool(), "marble", "2"]).success();
    assert_eq!(lode(["kv", "count", fixture.pool()]).success(), "3\n");
    let left: Vec<_> =
        std::fs::read_dir(fixture.folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(left, std::slice::from_ref(&fixture.pool), "the socket of the killed process is removed");
}
