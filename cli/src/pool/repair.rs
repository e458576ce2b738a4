//! `lode pool repair`.

use crate::answer::Answer;
use crate::failure::Failure;
use crate::pool::check::{DAMAGED, check};
use crate::progress::Progress;
use lode_heap::OpenError;
use lode_pool::{Access, map_unchecked, repair_headers};
use std::path::Path;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "where the pool is"),
    ("repaired", "what was rebuilt, a list of texts"),
    ("lost", "what is lost or still damaged, a list of texts; empty when nothing is"),
];

pub(crate) fn run(path: &Path) -> Result<Answer, Failure> {
    let progress = Progress::spinner("repairing the pool");
    let failure = || Failure::of_pool("repairing a pool", path);
    let mapping =
        map_unchecked(path, Access::ReadWrite).map_err(|error| failure()(OpenError::from(error).into()))?;
    let rewritten =
        repair_headers(&mapping).map_err(|error| failure()(OpenError::from(error.at(path)).into()))?;
    drop(mapping);
    let repaired: Vec<String> = rewritten
        .iter()
        .map(|copy| format!("header copy {copy} was written again, from the other one"))
        .collect();
    let lost = check(path)?.damage;
    drop(progress);
    let mut text: String = repaired.iter().chain(&lost).map(|line| format!("{line}\n")).collect();
    text += &match (&repaired[..], &lost[..]) {
        ([], []) => format!("{}: nothing to repair\n", path.display()),
        (_, []) => format!("{}: repaired, nothing is lost\n", path.display()),
        (_, lost) => format!("{}: {} damages remain; restore a backup\n", path.display(), lost.len()),
    };
    let code = if lost.is_empty() { 0 } else { DAMAGED };
    Ok(Answer::text(text)
        .with("path", path.display().to_string())
        .with("repaired", repaired)
        .with("lost", lost)
        .exit_with(code))
}
