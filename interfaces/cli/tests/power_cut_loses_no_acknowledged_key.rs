//! `lode kv load --ack` on a disk that drops unsynced writes: every acknowledged key survives.
//!
//! In a build with `--cfg lode_bugs` the test detects loads that omit a sync.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use anyhow::{Result, ensure};
use lode_powercut::{Trials, TrialsResult};
use lode_testing::{scaled, seed, skip};
use program::{command, compare, lode, text};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;

/// Keys that may be durable without having been acknowledged: one a thread.
const THREADS: usize = 8;
/// More than can be loaded until the power is cut.
const KEYS: usize = 20_000;
/// Largest number of disk requests before the power is cut.
const REQUESTS_MAX: u64 = 1500;
const SAMPLES: u64 = 2;

/// The keys of the input with their values.
struct Input {
    values: HashMap<String, String>,
}

impl Input {
    fn new() -> Input {
        let value = |number: usize| format!("value {number} {}", "x".repeat(number % 300));
        Input { values: (0..KEYS).map(|number| (format!("key{number}"), value(number))).collect() }
    }

    fn write(&self, path: &Path) {
        let lines = self.values.iter().map(|(key, value)| format!("{key}\t{value}\n"));
        std::fs::write(path, lines.collect::<String>()).unwrap();
    }

    /// Compares the content of the pool with this input and the acknowledged keys.
    fn compare(&self, pool: &Path, acknowledged: &HashSet<&str>) -> Result<()> {
        let exported = lode(["kv", "export", text(pool)]);
        ensure!(exported.code == Some(0), "export: {exported:?}");
        compare(&exported.out, &self.values, acknowledged, THREADS).map(drop)
    }

    /// Checks that the image is sound and holds the acknowledged keys, before and after it is opened for writing.
    fn verify(&self, image: &Path, output: &str) -> Result<()> {
        let whole = output.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let acknowledged = whole.collect();
        self.compare(image, &acknowledged)?;
        let (key, value) = self.values.iter().next().unwrap();
        for arguments in [
            &["kv", "put", text(image), key, value][..],
            &["kv", "delete", text(image), key],
            &["pool", "check", text(image)],
        ] {
            let ran = lode(arguments);
            ensure!(ran.code == Some(0), "{arguments:?}: {ran:?}");
        }
        if acknowledged.contains(key.as_str()) {
            lode(["kv", "put", text(image), key, value]).success();
        }
        self.compare(image, &acknowledged)
    }
}

/// Runs trials until one finds a violation; returns it. `bug` is planted in the
/// program.
fn first_loss(test: &str, rounds: u64, bug: Option<&str>) -> Option<String> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (pool, lines) = (folder.path().join("new.pool"), folder.path().join("in.tsv"));
    lode(["pool", "create", "--size", "16MiB", "--durability", "commit", text(&pool)]).success();
    let input = Input::new();
    input.write(&lines);
    let load = |pool: &Path| -> Command {
        let threads = THREADS.to_string();
        let mut load = command(["kv", "load", text(pool), text(&lines), "--ack", "--threads", &threads]);
        load.envs(bug.map(|name| ("LODE_BUG", name)));
        load
    };
    let trials = Trials {
        pool: &pool,
        folder: folder.path(),
        rounds,
        requests_max: REQUESTS_MAX,
        samples: SAMPLES,
        seed: seed(1),
    };
    match trials.run(load, |image, output| input.verify(image, output)).unwrap() {
        TrialsResult::Unmountable(error) => {
            skip(test, format_args!("no FUSE file system can be mounted: {error}"));
            return None;
        }
        TrialsResult::Violation(violation) => return Some(violation),
        TrialsResult::Passed => {}
    }
    assert!(bug.is_none(), "{test}: not found");
    None
}

#[test]
fn acknowledged_keys_survive_power_cut() {
    let loss = first_loss("acknowledged_keys_survive_power_cut", scaled(5), None);
    assert_eq!(loss, None);
}

#[cfg(lode_bugs)]
#[test]
fn unsynced_log_writes_are_detected() {
    let bug = lode_pmem::bugs::LOG_WRITE_NOT_SYNCED.name();
    first_loss("unsynced_log_writes_are_detected", 20, Some(bug));
}

#[cfg(lode_bugs)]
#[test]
fn unsynced_checkpoints_are_detected() {
    let bug = lode_pmem::bugs::DRAIN_NOT_SYNCED.name();
    first_loss("unsynced_checkpoints_are_detected", 20, Some(bug));
}
