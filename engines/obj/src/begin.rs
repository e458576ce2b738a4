//! The place of a transaction among those that are open.

use lode_pmem::Medium;
use lode_redo::cover::{Cover, CoverError, OpenTransaction};

/// Begins a transaction of the log. Waits for the end of another one while there is no place, as a thread of PMDK waits for a lane.
///
/// # Errors
/// None today.
pub(crate) fn begin<M: Medium>(cover: &Cover<M>) -> Result<OpenTransaction, CoverError> {
    for round in 0.. {
        match cover.begin_open() {
            Err(CoverError::TooManyOpen { .. }) => cover.medium().relax(round),
            outcome => return outcome,
        }
    }
    unreachable!("the loop ends with a transaction")
}
