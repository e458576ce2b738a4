//! The power cut finds the bugs for which it was made. Built with `--cfg lode_bugs`.
#![cfg(lode_bugs)]

mod trials;

use lode_layout::bug::Bug;
use lode_powercut::Found;
use trials::ledger;

/// The number of trials within which a bug must be found.
const ROUNDS: u64 = 40;

fn is_found(test: &str, bug: &'static Bug) {
    match ledger(test, ROUNDS, Some(bug.name())) {
        Found::Violation(violation) => println!("{bug}: {violation}"),
        Found::Unmountable(_) => {}
        Found::Nothing => panic!("{bug}: not found"),
    }
}

#[test]
fn a_log_write_that_is_not_synced() {
    is_found("a_log_write_that_is_not_synced", &lode_pmem::bugs::LOG_WRITE_NOT_SYNCED);
}

#[test]
fn a_drain_that_is_not_synced() {
    is_found("a_drain_that_is_not_synced", &lode_pmem::bugs::DRAIN_NOT_SYNCED);
}

#[test]
fn a_failed_sync_that_is_believed() {
    is_found("a_failed_sync_that_is_believed", &lode_heap::bugs::FAILED_SYNC_BELIEVED);
}
