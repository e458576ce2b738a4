//! `lode volume bench` prints its table, and leaves nothing in the folder, also when it is killed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{command, documented_fields, json_fields, lode, text};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const WORDS: [&str; 4] = ["--durability", "line", "volume", "bench"];

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Starts a measurement of a minute, and waits until a file without a name is open.
fn start(folder: &TempDir) -> Child {
    let path = text(folder.path());
    let words = WORDS.into_iter().chain([path, "--size", "64MiB", "--seconds", "60"]);
    let child = command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_open = || {
        let entries = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
        let mut links = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        links.any(|link| text(&link).starts_with(path) && text(&link).ends_with("(deleted)"))
    };
    while !is_open() || !names(folder.path()).is_empty() {
        thread::sleep(Duration::from_millis(1));
    }
    child
}

#[test]
fn bench_prints_its_table_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = text(folder.path());
    let words: Vec<&str> = WORDS.into_iter().chain([path, "--size", "64MiB", "--seconds", "0.01"]).collect();
    let out = lode(&words).success();
    for part in ["IOPS", "14553", "6418", "4343.78", "durability line: forced, found"] {
        assert!(out.contains(part), "no {part:?} in {out}");
    }
    let json = lode(words.iter().copied().chain(["--json"])).json();
    assert_eq!(json_fields(std::slice::from_ref(&json)), documented_fields(&["volume", "bench"]));
    let targets = json["targets"].as_array().unwrap();
    assert_eq!(targets.len(), 3);
    for target in &targets[1..] {
        let figure = |name: &str| target[name].as_f64().unwrap();
        assert!((figure("iops") * figure("ns") / 1e9 - 1.0).abs() < 1e-6, "{target}");
        assert!((figure("mib_per_s") * 256.0 / figure("iops") - 1.0).abs() < 1e-6, "{target}");
    }
    assert!(names(folder.path()).is_empty());
}

#[test]
fn interrupted_bench_leaves_nothing() {
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = start(&folder);
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), code);
        assert!(names(folder.path()).is_empty());
    }
}
