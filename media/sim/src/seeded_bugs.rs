//! The search for a seeded bug: the explorer must find it.

use crate::{Setup, Subject, Violation, explore, explore_poison};
use lode_layout::bug::Bug;

/// Distance of the seeds of two explorations of one search.
const SEEDS: u64 = 1000;

/// A seeded bug that was not caught, which means that the explorer or the workload can't be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndetectedBug {
    /// The wrong code ran, and no violation was found.
    #[error("the seeded bug {name} was not found")]
    NotFound {
        /// The name of the bug.
        name: &'static str,
    },
    /// The wrong code never ran: the workload does not reach it, or the engine does not ask for the bug any more.
    #[error("the wrong code of the seeded bug {name} never ran")]
    NotReached {
        /// The name of the bug.
        name: &'static str,
    },
}

/// Plants `bug` and explores `subject`, in up to `explorations` with seeds of their own, the first one that of `setup`,
/// until one of them finds a violation, and returns it as it was found: `setup.shrink` has no effect.
///
/// # Errors
/// Fails if none finds one, or if the wrong code never ran.
///
/// # Panics
/// As [`explore`].
pub fn find_seeded_bug(
    bug: &'static Bug,
    subject: &impl Subject,
    setup: &Setup,
    explorations: u64,
) -> Result<Violation, UndetectedBug> {
    search(bug, setup, explorations, |setup| explore(subject, setup).violation)
}

/// Searches for `bug` as [`find_seeded_bug`] does, in runs that [lose a line](explore_poison).
///
/// # Errors
/// As [`find_seeded_bug`].
///
/// # Panics
/// As [`explore`].
pub fn find_seeded_bug_by_poison(
    bug: &'static Bug,
    subject: &impl Subject,
    setup: &Setup,
    explorations: u64,
) -> Result<Violation, UndetectedBug> {
    search(bug, setup, explorations, |setup| explore_poison(subject, setup).violation)
}

fn search(
    bug: &'static Bug,
    setup: &Setup,
    explorations: u64,
    explore: impl Fn(&Setup) -> Option<Violation>,
) -> Result<Violation, UndetectedBug> {
    let violation = bug.plant(|| {
        let mut seeds = (0..explorations).map(|number| setup.seed.wrapping_add(number * SEEDS));
        seeds.find_map(|seed| explore(&Setup { seed, shrink: false, ..*setup }))
    });
    let name = bug.name();
    // A violation that the wrong code did not cause proves nothing.
    if !bug.was_reached() {
        return Err(UndetectedBug::NotReached { name });
    }
    violation.ok_or(UndetectedBug::NotFound { name })
}
