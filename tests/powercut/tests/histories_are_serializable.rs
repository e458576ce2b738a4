//! Some order of the transactions explains all that they read, and what a kill or a power cut leaves of them at
//! durability `commit`: each that was acknowledged is there.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod trials;

use lode_powercut::TrialsResult;
use lode_powercut::history::{Keys, verify};
use lode_testing::{scaled, seed};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;
use trials::{POOL_SIZE, history, history_program};

/// Greatest time in milliseconds that a process runs before it is killed. The promises hold at each of these moments.
const RUN_MS_MAX: u64 = 200;

#[test]
fn power_cut_leaves_serializable_history() {
    if let TrialsResult::Violation(violation) = history("power_cut_leaves_serializable_history", 8, None) {
        panic!("{violation}");
    }
}

#[test]
fn sigkill_leaves_serializable_history() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("pool");
    Keys::create(&pool, POOL_SIZE).unwrap();
    let mut random = fastrand::Rng::with_seed(seed(21));
    let (mut content, mut acknowledged) = (read(&pool), 0);
    for round in 0..scaled(12) {
        let (threads, seed) = (random.u64(2..=4), random.u64(..1 << 32));
        let output = folder.path().join("output");
        run_and_kill(history_program(&pool, threads, seed, None), &output, random.u64(..RUN_MS_MAX * 1000));
        let found = read(&pool);
        let output = fs::read_to_string(&output).unwrap();
        acknowledged +=
            verify(&content, &output, &found).unwrap_or_else(|error| panic!("{round}: {error:#}"));
        content = found;
    }
    println!("{acknowledged} acknowledged");
}

/// Kills the program some time after it has acknowledged a transaction.
fn run_and_kill(mut command: Command, output: &Path, micros: u64) {
    let mut program = command.stdout(File::create(output).unwrap()).spawn().unwrap();
    let has_acknowledged = || fs::read_to_string(output).unwrap().contains("\nA ");
    while !has_acknowledged() && program.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_micros(micros));
    program.kill().unwrap();
    let status = program.wait().unwrap();
    assert_eq!(status.code(), None, "the program ended by itself");
}

/// Recovers the pool, and returns its keys. A second recovery finds the same.
fn read(pool: &Path) -> lode_powercut::history::Content {
    // Dropped without closing, as if it was killed as soon as it had recovered.
    let content = Keys::open(pool).unwrap().content().unwrap();
    let keys = Keys::open(pool).unwrap();
    assert_eq!(keys.content().unwrap(), content);
    keys.close().unwrap();
    content
}
