//! `lode pool recover` of a pool of libpmemobj.

use super::PmdkPool;
use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use lode_layout::PmdkKind;
use lode_obj::Recovery;

const WHAT: &str = "recovering a pool";

/// The fields of a recovery.
pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    (
        "recovered",
        "true if a crash had left the pool, and it was recovered; false if there was nothing to do",
    ),
    (
        "was_in_use",
        "true if the crash was one of a program on Lodestone's libpmemobj: PMDK refused the pool until now",
    ),
    ("rolled_back", "transactions of PMDK that were rolled back; null if the crash was one of Lodestone"),
];

/// Recovers the pool and leaves it closed, so that PMDK opens it.
///
/// # Errors
/// A failure if there is no pool of libpmemobj, it is in use, or it can't be recovered.
pub(crate) fn recover(pool: &PmdkPool, durability: DurabilityOption) -> Result<Output, Failure> {
    if pool.kind != PmdkKind::Objects {
        let text =
            format!("a pool of {} needs no recovery: each open completes what is left", pool.library());
        return Err(Failure::new(WHAT, text));
    }
    let progress = Progress::spinner("recovering the pool");
    let path = pool.inspection.path();
    let opened = pool.open_to_change(WHAT, durability)?;
    let done = lode_obj::recover(opened.medium()).map_err(|error| Failure::damage(WHAT, error))?;
    opened.close().map_err(|error| Failure::new(WHAT, error))?;
    drop(progress);
    let Recovery { was_in_use, undone, .. } = done;
    let is_recovered = done != Recovery::default();
    let verdict = match (was_in_use, is_recovered) {
        (true, _) => "recovered from a crash of a program on Lodestone; PMDK opens it".to_owned(),
        (false, true) => format!("recovered from a crash of PMDK, {undone} transactions rolled back"),
        (false, false) => "nothing to recover".to_owned(),
    };
    Ok(Output::text(format!("{}: {verdict}\n", path.display()))
        .with("path", path.display().to_string())
        .with("recovered", is_recovered)
        .with("was_in_use", was_in_use)
        .with("rolled_back", (!was_in_use).then_some(undone)))
}
