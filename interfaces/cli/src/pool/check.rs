//! `lode pool check`.

use crate::failure::{DAMAGED, Failure};
use crate::hint::pool_hint;
use crate::output::Output;
use crate::progress::Progress;
use lode_fsck::check_pool;
use lode_heap::OpenError;
use lode_heap::check::{Finding, Report};
use lode_index::StoreLayout;
use lode_kv::LAYOUT;
use lode_pool::{Access, Headers, OpenOptions, PoolError, UncheckedPool, check_heap, map_unchecked};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the pool"),
    ("damaged", "whether there is damage; the exit code is then 3"),
    (
        "findings",
        "the findings: {severity, what, at, means, path}; the severity is damage, doubt or note; the path is the way from the root of typed data, or null",
    ),
    ("unclean", "whether the last writer did not close it, so that its log was replayed into a private view"),
    ("records", "records of the log that were replayed"),
    ("objects", "allocated objects"),
    ("keys", "keys whose leaves were verified"),
];

pub(crate) fn run(path: &Path) -> Result<Output, Failure> {
    let progress = Progress::spinner("checking the pool");
    let private_view = map_private_view(path)?;
    let headers = Headers::read(&private_view);
    let report = check_pool(Arc::new(private_view), &[&LAYOUT, &StoreLayout]);
    drop(progress);
    let damaged = report.is_damaged();
    let verdict = match (damaged, headers) {
        (false, _) => "no damage".to_owned(),
        (true, Ok(_)) => "damaged; run `lode pool repair`".to_owned(),
        (true, Err(error)) => format!("damaged: {error}{}", pool_hint(&error)),
    };
    let text = format!("{report}\n{}: {verdict}\n", path.display());
    let code = if damaged { DAMAGED } else { 0 };
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("damaged", damaged)
        .with("findings", findings(&report))
        .with("unclean", report.unclean)
        .with("records", report.counts.records)
        .with("objects", report.counts.objects)
        .with("keys", report.counts.keys)
        .with_exit_code(code))
}

/// Checks the whole pool in a private view.
pub(crate) fn check(path: &Path) -> Result<Report, Failure> {
    Ok(check_pool(Arc::new(map_private_view(path)?), &[&LAYOUT, &StoreLayout]))
}

/// Maps a private view of a file or device that may be a pool.
fn map_private_view(path: &Path) -> Result<UncheckedPool, Failure> {
    let failure = |error| Failure::of_pool("checking a pool", path)(OpenError::from(error).into());
    let private_view = map_unchecked(path, &OpenOptions::new(Access::ReadOnly)).map_err(failure)?;
    // A pool that another version wrote is not damaged, and only that version can check it.
    match Headers::read(&private_view) {
        Err(error @ PoolError::Incompatible { .. }) => return Err(failure(error.at(path))),
        Ok(headers) => check_heap(&headers.current().layout).map_err(|error| failure(error.at(path)))?,
        // The check reports it.
        Err(_) => {}
    }
    Ok(private_view)
}

pub(crate) fn findings(report: &Report) -> Value {
    let one = |finding: &Finding| {
        json!({
            "severity": finding.severity.to_string(),
            "what": finding.what,
            "at": finding.at.get(),
            "means": finding.means,
            "path": finding.path,
        })
    };
    report.findings.iter().map(one).collect()
}
