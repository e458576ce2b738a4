//! SIGKILL and SIGINT at random moments: every acknowledged key is there, and nothing else but keys in flight.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, RunResult, command, compare, lode, lode_with_stdin, text};
use lode_index::IndexError;
use lode_kv::Store;
use lode_pool::{Access, OpenOptions};
use lode_testing::{scaled, seed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Keys that may be durable without having been acknowledged: one a thread.
const THREADS: usize = 8;

fn spawn_load(pool: &str, input: &Path) -> Child {
    let threads = THREADS.to_string();
    let mut load = command(["kv", "load", pool, text(input), "--ack", "--threads", &threads]);
    load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    // It may have ended already.
    let _ = kill_process(Pid::from_child(child), signal);
}

/// Records the acknowledged keys; sends `signal` after `count` keys and `delay`. Returns its exit code, none if
/// it was killed.
fn follow(
    mut child: Child,
    acknowledged: &mut HashSet<String>,
    count: usize,
    delay: Duration,
    signal: Signal,
) -> Option<i32> {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        if out.read_line(&mut line).unwrap() == 0 {
            break;
        }
        let Some(key) = line.strip_suffix('\n') else { break };
        acknowledged.insert(key.to_owned());
        if number == count {
            thread::sleep(delay);
            send(&child, signal);
        }
    }
    child.wait().unwrap().code()
}

/// Compares the content of the pool with the lines of the input and the acknowledged keys.
#[track_caller]
fn verify(pool: &str, values: &HashMap<String, String>, acknowledged: &HashSet<String>) {
    let exported = lode(["kv", "export", pool]).success();
    let acknowledged = acknowledged.iter().map(String::as_str).collect();
    let count = compare(&exported, values, &acknowledged, THREADS).unwrap();
    assert_eq!(lode(["kv", "count", pool]).success(), format!("{count}\n"));
}

fn lines(count: usize) -> HashMap<String, String> {
    (0..count)
        .map(|number| (format!("key{number}"), format!("value {number} {}", "x".repeat(number % 200))))
        .collect()
}

fn write_lines(fixture: &PoolFixture, values: &HashMap<String, String>) -> std::path::PathBuf {
    fixture.file("in.tsv", values.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect::<String>())
}

#[test]
fn sigkill_loses_no_acknowledged_key() {
    kill_loads(6000, scaled(20), PoolFixture::new);
}

/// Each load begins with a pool of 128 KiB, which grows to several megabytes, and its log with it.
#[test]
fn sigkill_during_growth_loses_no_acknowledged_key() {
    kill_loads(20_000, scaled(20), || PoolFixture::of_size("128KiB"));
}

/// Kills loads of `count` lines until `kills` have hit. The loads go on in one pool until one of them ends.
fn kill_loads(count: usize, kills: u64, new: impl Fn() -> PoolFixture) {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let values = lines(count);
    let (mut fixture, mut acknowledged) = (new(), HashSet::new());
    let mut input = write_lines(&fixture, &values);
    let (mut finished, mut killed) = (0, 0);
    while killed < kills {
        let count = 1 + rng.usize(..1500.max(values.len() / 4));
        let delay = Duration::from_micros(rng.u64(..3000));
        let code = follow(spawn_load(fixture.pool(), &input), &mut acknowledged, count, delay, Signal::KILL);
        verify(fixture.pool(), &values, &acknowledged);
        match code {
            None => killed += 1,
            Some(code) => {
                assert_eq!(code, 0);
                assert_eq!(acknowledged.len(), values.len(), "all were loaded");
                lode(["pool", "check", fixture.pool()]).success();
                (fixture, acknowledged) = (new(), HashSet::new());
                input = write_lines(&fixture, &values);
                finished += 1;
            }
        }
    }
    println!("{killed} kills, {finished} loads finished");
}

/// Deletes keys in one transaction.
fn delete<'k>(fixture: &PoolFixture, keys: impl Iterator<Item = &'k String> + Clone) {
    let store = Store::open(Path::new(fixture.pool()), &OpenOptions::new(Access::ReadWrite)).unwrap();
    let tree = store.tree().unwrap();
    let deleted: Result<(), IndexError> =
        store.heap().run(|tx| keys.clone().try_for_each(|key| tree.delete_in(tx, key.as_bytes()).map(drop)));
    deleted.unwrap();
    store.close().unwrap();
}

#[test]
fn sigkill_of_shrink_loses_no_key() {
    stop_shrinks(Signal::KILL, None, scaled(10));
}

/// An interrupted shrink closes the pool, which has its old size.
#[test]
fn sigint_of_shrink_loses_no_key() {
    stop_shrinks(Signal::INT, Some(130), scaled(4));
}

/// Sends `signal` to `lode pool shrink` until `stops` of them have ended with `code`. Each pool lost most of its keys
/// before, and is shrunk to the end after.
fn stop_shrinks(signal: Signal, code: Option<i32>, stops: u64) {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let (values, gone) = (lines(3000), lines(20_000));
    let acknowledged: HashSet<String> = values.keys().cloned().collect();
    let (mut stopped, mut duration) = (0, Duration::from_millis(100));
    while stopped < stops {
        let fixture = PoolFixture::of_size("128KiB");
        lode(["kv", "load", fixture.pool(), text(&write_lines(&fixture, &gone))]).success();
        delete(&fixture, gone.keys().filter(|key| !values.contains_key(*key)));
        let size = || std::fs::metadata(fixture.pool()).unwrap().len();
        let first = size();
        while stopped < stops {
            let (before, start) = (size(), Instant::now());
            let shrink = command(["pool", "shrink", fixture.pool()])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            thread::sleep(duration.mul_f64(rng.f64()));
            send(&shrink, signal);
            let ended = RunResult::of(shrink.wait_with_output().unwrap());
            stopped += u64::from(ended.code == code);
            match ended.code {
                Some(130) => {
                    ended.failure(130, &[fixture.pool(), "was not shrunk"]);
                    assert_eq!(size(), before);
                    let info = lode(["pool", "info", fixture.pool(), "--json"]).json();
                    assert_eq!(info["closed"], true, "{info}");
                }
                Some(_) => {
                    ended.success();
                    duration = start.elapsed();
                }
                // Killed; also by an interrupt before the program listens for it.
                None => {}
            }
            verify(fixture.pool(), &values, &acknowledged);
            if size() < before {
                break;
            }
        }
        lode(["pool", "shrink", fixture.pool()]).success();
        assert!(size() < first / 2, "{} bytes of {first}", size());
        lode(["pool", "check", fixture.pool()]).success();
        verify(fixture.pool(), &values, &acknowledged);
    }
}

/// Lines of which many have the same key, and the number of the line in each value.
fn lines_with_few_keys(count: u64, keys: u64, rng: &mut fastrand::Rng) -> Vec<(String, String)> {
    (1..=count).map(|line| (format!("key{}", rng.u64(..keys)), format!("line {line}"))).collect()
}

/// Records the latest acknowledged line of each key, from JSON; kills the load after `count` new ones.
fn follow_lines(mut child: Child, latest: &mut HashMap<String, u64>, count: usize) -> Option<i32> {
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut news = 0;
    for line in out.lines() {
        // A line that was cut acknowledges nothing.
        let Ok(told) = serde_json::from_str::<Value>(&line.unwrap()) else { break };
        let (Some(key), Some(line)) = (told["acknowledged"].as_str(), told["line"].as_u64()) else { break };
        let known = latest.entry(key.to_owned()).or_default();
        if line > *known {
            *known = line;
            news += 1;
        }
        if news == count {
            send(&child, Signal::KILL);
        }
    }
    child.wait().unwrap().code()
}

/// Each key has the value of the latest line that was ever acknowledged for it, or of a later one. Returns the keys.
#[track_caller]
fn verify_lines(pool: &str, lines: &[(String, String)], latest: &HashMap<String, u64>) -> usize {
    let exported = lode(["kv", "export", pool]).success();
    let mut there = HashMap::new();
    for pair in exported.lines() {
        let (key, value) = pair.split_once('\t').unwrap();
        let line: u64 = value.strip_prefix("line ").unwrap().parse().unwrap();
        assert_eq!(lines[line as usize - 1].0, key, "{pair} was never loaded so");
        there.insert(key, line);
    }
    for (key, line) in latest {
        let found = there.get(key.as_str());
        assert!(
            found >= Some(line),
            "{key}: line {line} was acknowledged, and the value is that of {found:?}"
        );
    }
    there.len()
}

#[test]
fn sigkill_restores_no_older_value() {
    const KEYS: u64 = 400;
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let (mut kills, mut kills_of_this) = (0, 0);
    while kills < scaled(20) {
        let lines = lines_with_few_keys(4000, KEYS, &mut rng);
        let fixture = PoolFixture::new();
        let input = fixture
            .file("in.tsv", lines.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect::<String>());
        let mut latest = HashMap::new();
        loop {
            // Most kills hit while the load repeats earlier lines.
            let count = if rng.u8(..3) == 0 { rng.usize(..1500) } else { rng.usize(..60) };
            let threads = THREADS.to_string();
            let mut load = command([
                "kv",
                "load",
                fixture.pool(),
                text(&input),
                "--ack",
                "--json",
                "--threads",
                &threads,
            ]);
            let child = load.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let code = follow_lines(child, &mut latest, count);
            let keys = verify_lines(fixture.pool(), &lines, &latest);
            match code {
                None => (kills, kills_of_this) = (kills + 1, kills_of_this + 1),
                Some(code) => {
                    assert_eq!((code, keys), (0, latest.len()));
                    break;
                }
            }
        }
        lode(["pool", "check", fixture.pool()]).success();
        let last: HashMap<_, _> = lines.iter().zip(1..).map(|((key, _), line)| (key.clone(), line)).collect();
        verify_lines(fixture.pool(), &lines, &last);
        assert!(kills_of_this < 400, "the load gets nowhere");
        kills_of_this = 0;
    }
}

#[test]
fn killed_load_resumes() {
    let values = lines(6000);
    let fixture = PoolFixture::new();
    let input = write_lines(&fixture, &values);
    let mut acknowledged = HashSet::new();
    let code =
        follow(spawn_load(fixture.pool(), &input), &mut acknowledged, 3000, Duration::ZERO, Signal::KILL);
    assert_eq!(code, None, "killed before its end");
    let rest = lode(["kv", "load", fixture.pool(), text(&input), "--json"]).json();
    let before = rest["lines_before"].as_u64().unwrap();
    assert!(before > 1000 && before < 6000, "it remembered {before} lines");
    assert_eq!(before + rest["put"].as_u64().unwrap(), 6000);
    assert_eq!(lode(["kv", "count", fixture.pool()]).success(), "6000\n");
}

#[test]
fn sigint_stops_load_after_whole_line() {
    let values = lines(6000);
    let fixture = PoolFixture::new();
    let input = write_lines(&fixture, &values);
    let mut acknowledged = HashSet::new();
    let code =
        follow(spawn_load(fixture.pool(), &input), &mut acknowledged, 500, Duration::ZERO, Signal::INT);
    assert_eq!(code, Some(130));
    let exported = lode(["kv", "export", fixture.pool()]).success();
    assert_eq!(exported.lines().count(), acknowledged.len(), "whatever is there was acknowledged");
    let info = lode(["pool", "info", fixture.pool(), "--json"]).json();
    assert_eq!(info["closed"], true, "the pool was closed");
    let rest = lode(["kv", "load", fixture.pool(), text(&input)]).success();
    assert!(rest.contains("lines were loaded before"), "{rest}");
    assert_eq!(lode(["kv", "count", fixture.pool()]).success(), "6000\n");
}

#[test]
fn interrupted_create_is_atomic() {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let fixture = PoolFixture::new();
    let folder = fixture.folder.path().join("new");
    std::fs::create_dir(&folder).unwrap();
    let pool = folder.join("pool");
    let mut whole = 0;
    for round in 0..scaled(10) {
        let child = command(["pool", "create", text(&pool), "--size", "64MiB"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_micros(rng.u64(..60_000)));
        send(&child, if round % 2 == 0 { Signal::INT } else { Signal::KILL });
        child.wait_with_output().unwrap();
        let left = || -> Vec<_> {
            let entries = std::fs::read_dir(&folder).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect()
        };
        // The kill may come while the pool listens. Its socket, which no server has, stays until the next opening.
        let besides = left().into_iter().filter(|path| *path != folder.join("pool.sock"));
        if besides.clone().next().is_none() {
            assert_eq!(left(), [] as [std::path::PathBuf; 0], "no socket without its pool");
            continue;
        }
        assert_eq!(besides.collect::<Vec<_>>(), std::slice::from_ref(&pool), "no file besides");
        lode(["pool", "check", text(&pool)]).success();
        lode(["kv", "put", text(&pool), "k", "v"]).success();
        assert_eq!(left(), std::slice::from_ref(&pool), "the opening removed the socket");
        std::fs::remove_file(&pool).unwrap();
        whole += 1;
    }
    println!("{whole} pools were whole");
}

/// A copy is whole or not there after any signal. Its source, which is only read, stays as it is.
#[test]
fn interrupted_copy_is_atomic() {
    let mut rng = fastrand::Rng::with_seed(seed(2));
    let fixture = PoolFixture::new();
    let lines: String = (0..40_000).map(|number| format!("key {number}\tvalue of {number}\n")).collect();
    lode(["kv", "load", fixture.pool(), text(&fixture.file("in", &lines))]).success();
    let before = std::fs::read(&fixture.pool).unwrap();
    let folder = fixture.folder.path().join("new");
    std::fs::create_dir(&folder).unwrap();
    let copy = folder.join("copy");
    let mut whole = 0;
    for round in 0..scaled(20) {
        let child = command(["pool", "copy", fixture.pool(), text(&copy)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_micros(rng.u64(..150_000)));
        let is_interrupt = round % 2 == 0;
        send(&child, if is_interrupt { Signal::INT } else { Signal::KILL });
        let code = child.wait_with_output().unwrap().status.code();
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        // The signal may come before the program handles it, or after the last key.
        assert!(!is_interrupt || [None, Some(0), Some(130)].contains(&code), "{code:?}");
        if left.is_empty() {
            assert_ne!(code, Some(0));
            continue;
        }
        assert_eq!(left, std::slice::from_ref(&copy), "no file besides");
        assert_eq!(lode(["kv", "count", text(&copy)]).success(), "40000\n");
        std::fs::remove_file(&copy).unwrap();
        whole += 1;
    }
    println!("{whole} copies were whole");
    assert!(std::fs::read(&fixture.pool).unwrap() == before);
}

/// The input is a pipe that has nothing, nothing more, or half a line; and may stay so.
#[test]
fn sigint_stops_load_waiting_for_input() {
    for (sent, loaded) in [("", 0), ("a\t1\nb\t2\n", 2), ("a\t1\nb\t2\nhalf", 2)] {
        for earlier in [false, true] {
            let fixture = PoolFixture::new();
            if earlier {
                lode_with_stdin(["kv", "load", fixture.pool()], b"a\t1\nb\t2\n").success();
            }
            let mut load = command(["kv", "load", fixture.pool()]);
            let mut load = load.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut pipe = load.stdin.take().unwrap();
            pipe.write_all(sent.as_bytes()).unwrap();
            thread::sleep(Duration::from_millis(300));
            send(&load, Signal::INT);
            let begun = Instant::now();
            while load.try_wait().unwrap().is_none() {
                assert!(begun.elapsed() < Duration::from_secs(20), "{sent:?}: it still waits");
                thread::sleep(Duration::from_millis(10));
            }
            drop(pipe);
            let ended = RunResult::of(load.wait_with_output().unwrap());
            ended.failure(130, &["interrupted", "goes on from there"]);
            let loaded = if earlier { 2 } else { loaded };
            assert_eq!(lode(["kv", "count", fixture.pool()]).success(), format!("{loaded}\n"), "{sent:?}");
            assert_eq!(lode(["pool", "info", fixture.pool(), "--json"]).json()["closed"], true);
        }
    }
}

/// Returns the number of lines up to which the pool has what they made, and nothing else.
#[track_caller]
fn loaded_lines(pool: &str, lines: &[(String, String)]) -> usize {
    let exported = lode(["kv", "export", pool]).success();
    let there: HashMap<&str, &str> = exported.lines().map(|pair| pair.split_once('\t').unwrap()).collect();
    let number = |value: &&str| value.split(' ').nth(1).unwrap().parse::<usize>().unwrap();
    let count = there.values().map(number).max().unwrap_or(0);
    let expected: HashMap<&str, &str> =
        lines[..count].iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert!(there == expected, "the pool is not what {count} lines make");
    count
}

/// A load without acknowledgements puts many lines into a transaction. The next one goes on after the last of them.
#[test]
fn sigkill_of_bulk_load_resumes() {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let mut lines = lines_with_few_keys(60_000, 20_000, &mut rng);
    lines.iter_mut().for_each(|(_, value)| *value += &format!(" {}", "x".repeat(80)));
    let (mut killed, mut between, mut duration) = (0, 0, Duration::from_millis(200));
    while killed < scaled(20) {
        let fixture = PoolFixture::of_size("128KiB");
        let text_of = |(key, value): &(String, String)| format!("{key}\t{value}\n");
        let input = fixture.file("in.tsv", lines.iter().map(text_of).collect::<String>());
        let mut loaded = 0;
        while loaded < lines.len() && killed < scaled(20) {
            let start = Instant::now();
            let mut load = command(["kv", "load", fixture.pool(), text(&input)]);
            let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            thread::sleep(duration.mul_f64(rng.f64()));
            send(&load, Signal::KILL);
            let code = load.wait().unwrap().code();
            let now = loaded_lines(fixture.pool(), &lines);
            assert!(now >= loaded, "{now} lines after {loaded}");
            match code {
                None => killed += 1,
                Some(code) => assert_eq!((code, now), (0, lines.len())),
            }
            between += u64::from(code.is_none() && (1..lines.len()).contains(&now));
            // A kill that comes too early or too late shows little.
            duration = if now == loaded { duration * 2 } else { duration.min(start.elapsed() * 2) };
            loaded = now;
        }
        lode(["pool", "check", fixture.pool()]).success();
    }
    assert!(between > 0, "no kill came between two transactions");
}
