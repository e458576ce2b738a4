//! A kill loses no change of a map that has returned, and leaves none in part.

use lode_capi_compare::{Journal, in_memory};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The signal of [`std::process::Child::kill`].
const SIGKILL: i32 = 9;
/// Rounds with each set of variables.
const ROUNDS: u64 = 20;
/// Bytes that a program adds to its journal before it is killed, at most: of some hundred changes.
const BYTES_MAX: u64 = 4_000;
/// Longest time in microseconds after that.
const RUN_US_MAX: u64 = 5_000;

/// Runs the program until it has added so many bytes to the journal, and kills it after some time. Returns the journal of all runs on the
/// pool.
fn run_and_kill(
    journal: &Journal,
    pool: &Path,
    variables: &[(&str, &str)],
    (bytes, micros): (u64, u64),
) -> String {
    let path = pool.with_extension("journal");
    let output = File::options().append(true).create(true).open(&path).unwrap();
    let len = output.metadata().unwrap().len();
    let mut command = journal.command(true, "change", pool);
    let mut program = command.envs(variables.iter().copied()).stdout(output).spawn().unwrap();
    let has_changed = || fs::metadata(&path).unwrap().len() > len + bytes;
    while !has_changed() && program.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_micros(micros));
    program.kill().unwrap();
    let status = program.wait().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(status.signal(), Some(SIGKILL), "the program ended by itself: {text}");
    text
}

fn assert_nothing_is_lost(variables: &[(&str, &str)]) {
    let Some(journal) = Journal::compile() else { return };
    let folder = in_memory();
    let pool = folder.path().join("pool");
    journal.create(&pool).unwrap();
    let mut random = fastrand::Rng::with_seed(lode_testing::seed(1));
    for round in 0..lode_testing::scaled(ROUNDS) {
        let stop = (random.u64(..BYTES_MAX), random.u64(..RUN_US_MAX));
        let text = run_and_kill(&journal, &pool, variables, stop);
        journal.check(&pool, &text).unwrap_or_else(|lost| panic!("{variables:?}, round {round}: {lost}"));
    }
}

#[test]
fn killed_maps_lose_nothing() {
    assert_nothing_is_lost(&[("PMEM_IS_PMEM_FORCE", "1")]);
}

#[test]
fn killed_maps_of_careful_programs_lose_nothing() {
    assert_nothing_is_lost(&[("PMEM_IS_PMEM_FORCE", "1"), ("LODE_OBJ", "careful")]);
}

/// At durability `commit`.
#[test]
fn killed_maps_in_files_lose_nothing() {
    assert_nothing_is_lost(&[("PMEM_IS_PMEM_FORCE", "0")]);
}
