//! The power cut finds the bugs for which it was made. Built with `--cfg lode_bugs`.
#![cfg(lode_bugs)]

mod trials;

use lode_layout::bug::Bug;
use lode_powercut::TrialsResult;
use trials::{history, ledger};

/// The number of trials within which a bug must be found.
const ROUNDS: u64 = 40;

fn is_found(test: &str, bug: &'static Bug) {
    match ledger(test, ROUNDS, Some(bug.name())) {
        TrialsResult::Violation(violation) => println!("{bug}: {violation}"),
        TrialsResult::Unmountable(_) => {}
        TrialsResult::Passed => panic!("{bug}: not found"),
    }
}

/// The oracle of histories finds reads that are not validated.
#[test]
fn unvalidated_read_is_found() {
    let bug = &lode_heap::bugs::READS_NOT_VALIDATED;
    match history("unvalidated_read_is_found", ROUNDS, Some(bug.name())) {
        TrialsResult::Violation(violation) => println!("{bug}: {violation}"),
        TrialsResult::Unmountable(_) => {}
        TrialsResult::Passed => panic!("{bug}: not found"),
    }
}

#[test]
fn unsynced_log_write_is_found() {
    is_found("unsynced_log_write_is_found", &lode_pmem::bugs::LOG_WRITE_NOT_SYNCED);
}

#[test]
fn unsynced_drain_is_found() {
    is_found("unsynced_drain_is_found", &lode_pmem::bugs::DRAIN_NOT_SYNCED);
}

#[test]
fn ignored_sync_failure_is_found() {
    is_found("ignored_sync_failure_is_found", &lode_heap::bugs::FAILED_SYNC_IGNORED);
}
