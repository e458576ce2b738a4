//! Maps of libpmemobj in a file, on a disk that drops unsynced writes: every acknowledged change survives, and none in part.
//!
//! In a build with `--cfg lode_bugs` the test detects a library that omits a sync, or the images of pages.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_capi_compare::Journal;
use lode_powercut::{Trials, TrialsResult};
use lode_testing::{scaled, seed};
use std::path::Path;

/// Largest number of disk requests before the power is cut.
const REQUESTS_MAX: u64 = 600;
const SAMPLES: u64 = 2;

/// Runs trials until one finds a loss, in processes with the variable, if there is one. `None`, and a line of a skipped test, if they can't
/// run here.
fn run(test: &str, rounds: u64, variable: Option<(&str, &str)>) -> Option<TrialsResult> {
    let journal = Journal::compile()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("new");
    journal.create(&pool).unwrap();
    let trials = Trials {
        pool: &pool,
        folder: folder.path(),
        rounds,
        requests_max: REQUESTS_MAX,
        samples: SAMPLES,
        seed: seed(1),
    };
    let change = |path: &Path| {
        let mut command = journal.command(true, "change", path);
        command.envs(variable);
        command
    };
    let check = |image: &Path, output: &str| journal.check(image, output).map_err(anyhow::Error::msg);
    match trials.run(change, check).unwrap() {
        TrialsResult::Unmountable(error) => {
            lode_testing::skip(test, format_args!("no FUSE file system can be mounted: {error}"));
            None
        }
        result => Some(result),
    }
}

/// Fails if trials find a loss.
fn assert_survive(test: &str, rounds: u64, variable: Option<(&str, &str)>) {
    if let Some(TrialsResult::Violation(loss)) = run(test, rounds, variable) {
        panic!("{loss}");
    }
}

#[test]
fn acknowledged_changes_survive_power_cut() {
    assert_survive("acknowledged_changes_survive_power_cut", scaled(6), None);
}

#[test]
fn changes_of_careful_programs_survive_power_cut() {
    let careful = Some(("LODE_OBJ", "careful"));
    assert_survive("changes_of_careful_programs_survive_power_cut", scaled(3), careful);
}

/// Fails if trials don't find the loss by a bug.
#[cfg(lode_bugs)]
fn assert_found(test: &str, rounds: u64, bug: &lode_layout::bug::Bug) {
    if let Some(TrialsResult::Passed) = run(test, rounds, Some(("LODE_BUG", bug.name()))) {
        panic!("{bug}: not found");
    }
}

#[cfg(lode_bugs)]
#[test]
fn records_without_a_sync_are_detected() {
    assert_found("records_without_a_sync_are_detected", 20, &lode_pmem::bugs::LOG_WRITE_NOT_SYNCED);
}

#[cfg(lode_bugs)]
#[test]
fn checkpoints_without_a_sync_are_detected() {
    assert_found("checkpoints_without_a_sync_are_detected", 20, &lode_pmem::bugs::DRAIN_NOT_SYNCED);
}

#[cfg(lode_bugs)]
#[test]
fn images_that_are_left_out_are_detected() {
    assert_found("images_that_are_left_out_are_detected", 200, &lode_redo::bugs::IMAGE_LEFT_OUT);
}
