//! `lode pool repair` of a pool of libpmemobj.

use super::PmdkPool;
use crate::durability::DurabilityOption;
use crate::failure::{DAMAGED, Failure};
use crate::output::Output;
use crate::pool::size;
use crate::progress::Progress;
use lode_layout::PmdkKind;
use lode_obj::Finding;

/// The fields of a repair of a pool of PMDK.
pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("repaired", "what was repaired, a sentence each"),
    ("given_back", "bytes of lost space that were given back"),
    ("left", "what is wrong and was left as it is, a sentence each; the exit code is then 3"),
];

/// Recovers the pool, and repairs what is certain.
///
/// # Errors
/// A failure if the pool is of another library, is in use, or can't be opened.
pub(crate) fn repair(pool: &PmdkPool, durability: DurabilityOption) -> Result<Output, Failure> {
    const WHAT: &str = "repairing a pool";
    if pool.kind != PmdkKind::Objects {
        return Err(Failure::new(
            WHAT,
            format!("a pool of {}; run `pmempool check --repair`", pool.library()),
        ));
    }
    let progress = Progress::spinner("repairing the pool");
    let path = pool.inspection.path();
    let opened = pool.open_to_change(WHAT, durability)?;
    let done = lode_obj::repair(opened.medium()).map_err(|error| Failure::damage(WHAT, error))?;
    opened.close().map_err(|error| Failure::new(WHAT, error))?;
    drop(progress);
    let sentences =
        |findings: &[Finding]| -> Vec<String> { findings.iter().map(ToString::to_string).collect() };
    let (repaired, left) = (sentences(&done.repaired), sentences(&done.left));
    let mut text: String = repaired.iter().map(|what| format!("repaired: {what}\n")).collect();
    text.extend(left.iter().map(|what| format!("left: {what}\n")));
    let verdict = match (left.is_empty(), repaired.is_empty()) {
        (true, true) => "nothing to repair".to_owned(),
        (true, false) => format!("repaired, {} of lost space given back", size(done.given_back)),
        (false, _) => "damaged; restore it from a copy".to_owned(),
    };
    text += &format!("{}: {verdict}\n", path.display());
    let code = if left.is_empty() { 0 } else { DAMAGED };
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("repaired", repaired)
        .with("given_back", done.given_back)
        .with("left", left)
        .with_exit_code(code))
}
