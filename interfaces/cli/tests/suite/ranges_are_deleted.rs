//! Ranges of keys are deleted by `lode kv delete`: by prefix or bounds, in bounded memory, and in whole parts if a signal
//! ends it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, command, limited, lode, text};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// Keys of a transaction that deletes a range of short ones.
const PART: u64 = 65_536;
const COUNT: u64 = 4 * PART + 1000;

fn load(fixture: &PoolFixture, lines: String) {
    let input = fixture.file("in", lines);
    lode(["kv", "load", fixture.pool(), text(&input), "--format", "keys", "--durability", "none"]).success();
}

fn count(fixture: &PoolFixture) -> u64 {
    lode(["kv", "count", fixture.pool(), "--json"]).json()["count"].as_u64().unwrap()
}

#[test]
fn prefix_and_bounds_choose_keys() {
    let fixture = PoolFixture::new();
    let pool = fixture.pool();
    let input = fixture.file("in.tsv", "b\t1\na\t2\nab\t3\n\\xff\t4\nA\nac\t5\n");
    let load = || lode(["kv", "load", pool, text(&input)]).success();
    load();
    let delete = |arguments: &[&str]| lode([&["kv", "delete", pool], arguments].concat());
    assert_eq!(delete(&["--prefix", "a", "--from", "ab"]).success(), "2 keys deleted\n");
    assert_eq!(lode(["kv", "scan", pool]).success(), "A\t\na\t2\nb\t1\n\\xff\t4\n");
    assert_eq!(delete(&["--to", "b", "--json"]).json()["deleted"], 2);
    assert_eq!(delete(&["--prefix", "zz"]).success(), "0 keys deleted\n", "no key is no error");
    assert_eq!(delete(&["--from", "b"]).success(), "2 keys deleted\n");
    assert_eq!(lode(["kv", "count", pool]).success(), "0\n");
    // Loading the same input again puts what was deleted.
    load();
    assert_eq!(lode(["kv", "count", pool]).success(), "6\n");
    delete(&[]).failure(2, &["required", "--prefix", "KEY"]);
    delete(&["a", "--prefix", "a"]).failure(2, &["cannot be used with"]);
    assert_eq!(lode(["kv", "count", pool]).success(), "6\n");
    assert_eq!(delete(&["--prefix", ""]).success(), "6 keys deleted\n");
}

/// At whatever moment a signal comes: whole parts are gone, the pool is sound, and the same command does the rest.
#[test]
fn signals_leave_whole_parts() {
    for (signal, delay_ms) in [(Signal::INT, 30), (Signal::TERM, 90), (Signal::KILL, 60)] {
        let fixture = PoolFixture::new();
        load(&fixture, (0..COUNT).map(|number| format!("key{number:07}\n")).collect());
        let delete = ["kv", "delete", fixture.pool(), "--prefix", "key"];
        let child = command(delete).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay_ms));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        let (left, said) = (count(&fixture), String::from_utf8(ended.stderr).unwrap());
        let gone = COUNT - left;
        assert!(
            left == 0 || gone.is_multiple_of(PART),
            "{signal:?} after {delay_ms} ms: {gone} keys are gone"
        );
        match ended.status.code() {
            Some(130) => assert!(said.contains(&format!("interrupted after {gone} keys")), "{said}"),
            Some(0) => assert_eq!(left, 0),
            // The program was killed, or had not begun to listen.
            code => assert_eq!(code, None, "{said}"),
        }
        assert!(lode(["pool", "check", fixture.pool()]).success().contains("no damage"));
        assert_eq!(lode(delete).success(), format!("{left} keys deleted\n"));
        assert_eq!(count(&fixture), 0);
    }
}

/// The keys of a part are in memory, not those of the range: 100 MB here.
#[test]
fn memory_is_bounded() {
    let fixture = PoolFixture::new();
    let filler = "k".repeat(400);
    load(&fixture, (0..250_000).map(|number| format!("{number:07}{filler}\n")).collect());
    let deleted = limited("ulimit -d 40000", &["kv", "delete", fixture.pool(), "--from", ""]);
    assert_eq!(deleted.success(), "250000 keys deleted\n");
    assert_eq!(count(&fixture), 0);
}
