//! The check of a log pool of PMDK.

use crate::pmdk::error::PmemLogError;
use crate::pmdk::log::{describe, describe_content};
use lode_layout::{BLOCK, PmdkLog, PoolOffset};
use lode_pmem::Medium;

/// Faults after which a check ends.
const FAULTS_MAX: usize = 1000;

/// Checks a log pool of PMDK. Returns the damages, at most about a thousand: none if it is sound. Its bytes have no checksum, so
/// they are only read.
///
/// # Cost
/// Reads everything, and stores nothing.
pub fn check<M: Medium>(medium: &M) -> Vec<PmemLogError> {
    check_described(medium, describe(medium))
}

/// Checks the log in a pool whose headers another layer has checked, as [`check`] does. They may be those of a pool set.
///
/// # Cost
/// As [`check`].
pub fn check_content<M: Medium>(medium: &M) -> Vec<PmemLogError> {
    check_described(medium, describe_content(medium))
}

fn check_described<M: Medium>(medium: &M, log: Result<PmdkLog, PmemLogError>) -> Vec<PmemLogError> {
    let write = match log {
        Ok(PmdkLog { write, .. }) => write,
        Err(error) => return vec![error],
    };
    let mut page = [0; BLOCK as usize];
    let read = |at: u64| {
        let len = (write.get() - at).min(BLOCK) as usize;
        medium.memory().reading(|memory| memory.read(PoolOffset::new(at), &mut page[..len]))
    };
    let pages = (PmdkLog::START.get()..write.get()).step_by(BLOCK as usize);
    pages.map(read).filter_map(Result::err).take(FAULTS_MAX).map(PmemLogError::from).collect()
}
