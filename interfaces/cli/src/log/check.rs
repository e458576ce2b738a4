//! `lode log check`.

use crate::failure::{DAMAGED, Failure};
use crate::log::{LogFormat, failed, pmem_failed, pmem_log_error};
use crate::output::Output;
use crate::progress::Progress;
use lode_log::{LogPool, LogPoolError};
use lode_pool::{Access, Headers, OpenOptions, PoolError, UncheckedPool, check_headers, map_unchecked};
use std::path::Path;

const WHAT: &str = "checking a log";

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the log"),
    ("format", "its format: log or pmemlog"),
    ("damaged", "whether there is damage; the exit code is then 3"),
    ("findings", "the findings, a sentence each"),
];

pub(crate) fn run(path: &Path) -> Result<Output, Failure> {
    let progress = Progress::spinner("checking the log");
    let format = LogFormat::recognise(WHAT, path)?;
    let options = OpenOptions::new(Access::ReadOnly);
    let pool = map_unchecked(path, &options).map_err(|error| failed(WHAT)(error.into()))?;
    let findings = match format {
        LogFormat::Log => findings(path, &pool)?,
        LogFormat::Pmemlog => pmem_findings(path, &pool)?,
    };
    drop(progress);
    let damaged = !findings.is_empty();
    let mut text: String = findings.iter().map(|finding| format!("damage: {finding}\n")).collect();
    let verdict = if damaged { "damaged; restore it from a copy" } else { "no damage" };
    text += &format!("{}: {verdict}\n", path.display());
    Ok(Output::text(text)
        .with("path", path.display().to_string())
        .with("format", format.name())
        .with("damaged", damaged)
        .with("findings", findings)
        .with_exit_code(if damaged { DAMAGED } else { 0 }))
}

fn findings(path: &Path, pool: &UncheckedPool) -> Result<Vec<String>, Failure> {
    let mut findings: Vec<String> = check_headers(&**pool).iter().map(ToString::to_string).collect();
    match Headers::read(&**pool) {
        Ok(headers) => {
            let header = headers.current();
            if header.layout != LogPool::layout() {
                let error = LogPoolError::Layout { path: path.to_owned(), layout: header.layout };
                return Err(failed(WHAT)(error));
            }
            let damages = lode_log::check(&**pool, &header.geometry, header.uuid.as_bytes());
            findings.extend(damages.iter().map(ToString::to_string));
        }
        // A pool that another version wrote is not damaged, and only that version can check it.
        Err(error) if error.has_no_pool() || matches!(error, PoolError::Incompatible { .. }) => {
            return Err(failed(WHAT)(error.at(path).into()));
        }
        // A finding tells why.
        Err(_) => {}
    }
    Ok(findings)
}

fn pmem_findings(path: &Path, pool: &UncheckedPool) -> Result<Vec<String>, Failure> {
    let errors = lode_log::pmdk::check(&**pool);
    match errors.iter().find(|error| !error.is_damage()) {
        Some(error) => Err(pmem_failed(WHAT)(pmem_log_error(path, *error))),
        None => Ok(errors.iter().map(ToString::to_string).collect()),
    }
}
