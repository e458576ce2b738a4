//! `lode pool check`.

use crate::answer::Answer;
use crate::failure::{DAMAGED, Failure};
use crate::next_step::after_pool;
use crate::progress::Progress;
use lode_fsck::check_pool;
use lode_heap::OpenError;
use lode_heap::check::{Finding, Report, Severity};
use lode_kv::LAYOUT;
use lode_pool::{Access, Headers, OpenOptions, PoolError, Unchecked, map_unchecked};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "where the pool is"),
    ("damaged", "whether there is damage; the exit code is then 3"),
    ("findings", "what is worth telling: {severity, what, at, means}; the severity is damage, doubt or note"),
    ("unclean", "whether the last writer did not close it, so that its log was replayed into a private view"),
    ("records", "records of the log that were needed for that"),
    ("objects", "allocated objects"),
    ("keys", "keys whose leaves were verified"),
];

pub(crate) fn run(path: &Path) -> Result<Answer, Failure> {
    let progress = Progress::spinner("checking the pool");
    let view = view(path)?;
    let headers = Headers::read(&view);
    let report = check_pool(Arc::new(view), &[&LAYOUT]);
    drop(progress);
    let damaged = is_damaged(&report);
    let verdict = match (damaged, headers) {
        (false, _) => "no damage".to_owned(),
        (true, Ok(_)) => "damaged; run `lode pool repair`".to_owned(),
        (true, Err(error)) => format!("damaged: {error}{}", after_pool(&error)),
    };
    let text = format!("{report}\n{}: {verdict}\n", path.display());
    let code = if damaged { DAMAGED } else { 0 };
    Ok(Answer::text(text)
        .with("path", path.display().to_string())
        .with("damaged", damaged)
        .with("findings", findings(&report))
        .with("unclean", report.unclean)
        .with("records", report.counts.records)
        .with("objects", report.counts.objects)
        .with("keys", report.counts.keys)
        .exit_with(code))
}

/// Checks the whole pool in a private view.
pub(crate) fn check(path: &Path) -> Result<Report, Failure> {
    Ok(check_pool(Arc::new(view(path)?), &[&LAYOUT]))
}

/// Maps a private view of a file or device that may be a pool.
fn view(path: &Path) -> Result<Unchecked, Failure> {
    let failure = |error| Failure::of_pool("checking a pool", path)(OpenError::from(error).into());
    let view = map_unchecked(path, &OpenOptions::new(Access::ReadOnly)).map_err(failure)?;
    // A pool that another version wrote is not damaged, and only that version can check it.
    if let Err(error @ PoolError::Foreign { .. }) = Headers::read(&view) {
        return Err(failure(error.at(path)));
    }
    Ok(view)
}

/// Returns true if the report names damage. A state that a power cut can leave is not damage.
pub(crate) fn is_damaged(report: &Report) -> bool {
    report.worst() == Some(Severity::Damage) || report.omitted > 0
}

pub(crate) fn findings(report: &Report) -> Value {
    let one = |finding: &Finding| {
        json!({
            "severity": finding.severity.to_string(),
            "what": finding.what,
            "at": finding.at.get(),
            "means": finding.means,
        })
    };
    report.findings.iter().map(one).collect()
}
