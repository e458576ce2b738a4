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

/// Runs trials until one finds a loss; returns it. `bug` is planted in the library.
fn first_loss(test: &str, rounds: u64, bug: Option<&str>) -> Option<String> {
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
        command.envs(bug.map(|name| ("LODE_BUG", name)));
        command
    };
    let check = |image: &Path, output: &str| journal.check(image, output).map_err(anyhow::Error::msg);
    match trials.run(change, check).unwrap() {
        TrialsResult::Unmountable(error) => {
            lode_testing::skip(test, format_args!("no FUSE file system can be mounted: {error}"));
            return None;
        }
        TrialsResult::Violation(violation) => return Some(violation),
        TrialsResult::Passed => {}
    }
    assert!(bug.is_none(), "{test}: not found");
    None
}

#[test]
fn acknowledged_changes_survive_power_cut() {
    let loss = first_loss("acknowledged_changes_survive_power_cut", scaled(6), None);
    assert_eq!(loss, None);
}

#[cfg(lode_bugs)]
#[test]
fn records_without_a_sync_are_detected() {
    let bug = lode_pmem::bugs::LOG_WRITE_NOT_SYNCED.name();
    first_loss("records_without_a_sync_are_detected", 20, Some(bug));
}

#[cfg(lode_bugs)]
#[test]
fn checkpoints_without_a_sync_are_detected() {
    let bug = lode_pmem::bugs::DRAIN_NOT_SYNCED.name();
    first_loss("checkpoints_without_a_sync_are_detected", 20, Some(bug));
}

#[cfg(lode_bugs)]
#[test]
fn images_that_are_left_out_are_detected() {
    let bug = lode_redo::bugs::IMAGE_LEFT_OUT.name();
    first_loss("images_that_are_left_out_are_detected", 200, Some(bug));
}
