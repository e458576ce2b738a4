//! Removal of the files of an interrupted `init`. Its directory is invalid, since `state.toml` is written last.

use super::error::DirectoryError;
use super::journal::JOURNAL;
use super::lock::{Purpose, take};
use super::paths::{LOCK, MACHINE, MODULES, NEW_STATE, STATE};
use super::step::Step;
use crate::file::error::FileError;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Checks that the directory is empty or missing, and removes the files of an interrupted `init`. Returns the lock file
/// of that `init`, locked, so that no other command can use the directory.
///
/// # Errors
/// Fails if the directory holds other files, if another command makes it at this moment, or if a system call fails.
pub(super) fn clear(root: &Path) -> Result<Option<File>, DirectoryError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| FileError { what: "reading", path, error }
    };
    let Some(names) = names(root).map_err(failed(root))? else { return Ok(None) };
    if names.is_empty() {
        return Ok(None);
    }
    let ours = [LOCK, MACHINE, MODULES, NEW_STATE];
    let not_empty = || DirectoryError::NotEmpty { path: root.to_owned() };
    if !names.contains(LOCK) || names.iter().any(|name| !ours.contains(&name.as_str())) {
        return Err(not_empty());
    }
    let lock = OpenOptions::new().read(true).open(root.join(LOCK)).map_err(failed(&root.join(LOCK)))?;
    take(&lock, Purpose::Change, root, Duration::ZERO)?;
    // Another `init` may have completed before the lock was free.
    if root.join(STATE).exists() || root.join(JOURNAL).exists() {
        return Err(not_empty());
    }
    let folder = root.join(MODULES);
    let modules = self::names(&folder).map_err(failed(&folder))?.unwrap_or_default();
    if modules.iter().any(|name| !is_of_module(name)) {
        return Err(not_empty());
    }
    let files = modules.iter().map(|name| Path::new(MODULES).join(name));
    let others = [MACHINE, NEW_STATE].into_iter().filter(|name| names.contains(*name)).map(Into::into);
    for step in files.chain(others).map(Step::Remove) {
        let path = root.join(step.path());
        step.run(root).map_err(|error| FileError { what: "removing", path, error })?;
    }
    Ok(Some(lock))
}

/// Returns the file names in a folder; `None` if it does not exist.
fn names(folder: &Path) -> io::Result<Option<BTreeSet<String>>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    entries.map(name).collect::<io::Result<_>>().map(Some)
}

/// Returns true if a name is that of a module's file.
fn is_of_module(name: &str) -> bool {
    let handle = name.strip_suffix(".media").or_else(|| name.strip_suffix(".labels"));
    let digits = handle.and_then(|handle| handle.strip_prefix("0x"));
    digits.is_some_and(|digits| digits.len() >= 4 && digits.chars().all(|one| one.is_ascii_hexdigit()))
}
