//! The objects of a pool of libpmemobj, as its next open leaves them: in a private view that is recovered.

use super::PmdkPool;
use crate::failure::Failure;
use lode_obj::{Finding, ObjError, plan_repair, recover};
use lode_pmdk::{OpenOptions, PmdkAccess, PmdkError, PoolMedium};
use std::sync::Arc;

/// The result of a check.
pub(super) struct Checked {
    /// The findings, and whether a repair of each is certain.
    pub(super) findings: Vec<(Finding, bool)>,
    /// True if the next open has to recover the pool.
    pub(super) is_unclean: bool,
    /// Number of objects, the root apart.
    pub(super) objects: u64,
}

/// Opens the pool in a private view, for the command `what`. `Ok(Err)` has the reason why it can't be opened.
///
/// # Errors
/// A failure if the pool is in use, or can't be read.
pub(super) fn open_view(what: &str, pool: &PmdkPool) -> Result<Result<lode_pmdk::PmdkPool, String>, Failure> {
    let options = OpenOptions {
        // Modules that lost data are a finding of their own library, and no damage that can be seen.
        ignores_shutdown_state: true,
        ..OpenOptions::new(pool.kind, PmdkAccess::ReadOnly)
    };
    match lode_pmdk::PmdkPool::open(pool.inspection.path(), &options) {
        Ok(opened) => Ok(Ok(opened)),
        Err(error @ (PmdkError::Io { .. } | PmdkError::InUse { .. })) => Err(Failure::new(what, error)),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// Returns the recovered content of the pool, in a private view, and whether it had to be recovered. Content that can't be
/// recovered is as it lies.
///
/// # Errors
/// A failure if the pool can't be opened, or memory is lost.
pub(super) fn recovered(what: &str, pool: &PmdkPool) -> Result<(Arc<PoolMedium>, bool), Failure> {
    let opened = open_view(what, pool)?.map_err(|error| Failure::damage(what, error))?;
    let medium = Arc::clone(opened.medium());
    let is_unclean = match recover(&medium) {
        Ok(done) => done.was_in_use || done.redone + done.undone > 0,
        // The check names the damage.
        Err(ObjError::Damaged(_)) => false,
        Err(error) => return Err(Failure::damage(what, error)),
    };
    Ok((medium, is_unclean))
}

/// Checks the heap.
///
/// # Errors
/// As [`recovered`].
pub(super) fn check(pool: &PmdkPool) -> Result<Checked, Failure> {
    let (medium, is_unclean) = recovered("checking a pool", pool)?;
    let plan = plan_repair(&medium);
    let objects = lode_obj::ObjView::open(&medium).and_then(|view| view.statistics());
    let mut findings: Vec<_> = plan.left.into_iter().map(|finding| (finding, false)).collect();
    findings.extend(plan.repaired.into_iter().map(|finding| (finding, true)));
    Ok(Checked { findings, is_unclean, objects: objects.map_or(0, |found| found.objects) })
}
