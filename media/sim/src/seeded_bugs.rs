//! The search for seeded bugs: each of an engine must be found.

use crate::Report;
use lode_layout::bug::Bug;
use std::collections::BTreeSet;

/// A seeded bug that was not caught, which means that the explorer or the workload can't be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndetectedBug {
    /// The wrong code ran, and no violation was found.
    #[error("the seeded bug {name} was not found")]
    NotFound {
        /// The name of the bug.
        name: &'static str,
    },
    /// The wrong code never ran: no workload reaches it, or the engine does not ask for the bug any more.
    #[error("the wrong code of the seeded bug {name} never ran")]
    NotReached {
        /// The name of the bug.
        name: &'static str,
    },
    /// Two bugs have one name.
    #[error("two seeded bugs are named {name}")]
    NamedTwice {
        /// The name.
        name: &'static str,
    },
}

/// Plants each of `bugs` in turn and makes `search` look for it, by exploring a workload that may show it. Returns the
/// bugs that were not caught.
pub fn find_seeded_bugs(
    bugs: &[&'static Bug],
    mut search: impl FnMut(&'static Bug) -> Report,
) -> Vec<UndetectedBug> {
    let mut names = BTreeSet::new();
    let mut undetected = Vec::new();
    for bug in bugs {
        let name = bug.name();
        if !names.insert(name) {
            undetected.push(UndetectedBug::NamedTwice { name });
            continue;
        }
        let report = bug.plant(|| search(bug));
        if !bug.was_reached() {
            undetected.push(UndetectedBug::NotReached { name });
        } else if report.violation.is_none() {
            undetected.push(UndetectedBug::NotFound { name });
        }
    }
    undetected
}
