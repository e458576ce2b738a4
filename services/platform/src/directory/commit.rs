//! Makes changes durable, and completes interrupted ones.

use super::error::DirectoryError;
use super::journal::{Change, FileWrite, JOURNAL, JOURNAL_NEW};
use super::load::{parse, read};
use super::paths::{KEYS, STATE, cxl_labels_path, labels_path, media_path};
use super::pending::Pending;
use super::staged::STAGED;
use crate::contents::ModuleWrite;
use crate::file::error::FileError;
use crate::state::State;
use rustix::fs::{CWD, Mode, OFlags, ftruncate, openat};
use std::fs;
use std::io;
use std::path::Path;

/// Makes a change durable, and performs it.
pub(super) fn write(root: &Path, change: &Change) -> Result<(), DirectoryError> {
    for write in &change.writes {
        if let FileWrite::Made { file, len } = write {
            check_len(root, file, *len)?;
        }
    }
    for step in change.steps_to_journal(journal_text(change)) {
        if let Err(error) = step.run(root) {
            let what = "writing the journal of";
            // The change is undone as long as the journal does not have its name.
            return match fs::remove_file(root.join(JOURNAL_NEW)) {
                Err(_) if root.join(JOURNAL).exists() => {
                    Err(DirectoryError::Interrupted { what, path: root.to_owned(), error })
                }
                _ => Err(FileError { what, path: root.to_owned(), error }.into()),
            };
        }
    }
    apply(root, change)
}

/// Checks that the file system takes a file of this length, where it has files without names: a change that is durable must not
/// fail.
fn check_len(root: &Path, file: &Path, len: u64) -> Result<(), FileError> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let Ok(trial) = openat(CWD, root, flags, Mode::RUSR | Mode::WUSR) else { return Ok(()) };
    ftruncate(trial, len).map_err(|errno| FileError {
        what: "making",
        path: root.join(file),
        error: errno.into(),
    })
}

fn apply(root: &Path, change: &Change) -> Result<(), DirectoryError> {
    for step in change.steps_to_apply() {
        let path = root.join(step.path());
        step.run(root).map_err(|error| DirectoryError::Interrupted { what: "writing", path, error })?;
    }
    Ok(())
}

/// Completes an interrupted change, or removes the files of one that did not become durable.
pub(super) fn finish(root: &Path) -> Result<(), DirectoryError> {
    let path = root.join(JOURNAL_NEW);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(FileError { what: "removing", path, error }.into());
        }
        _ => {}
    }
    if let Some(text) = read(root, JOURNAL)? {
        apply(root, &parse(root, JOURNAL, &text)?)?;
    }
    let path = root.join(STAGED);
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(FileError { what: "removing", path, error }.into())
        }
        _ => Ok(()),
    }
}

/// Reads the change in the journal; an empty one if there is no journal.
///
/// # Errors
/// Fails if the journal is corrupt, or if a system call fails.
pub(super) fn pending(root: &Path) -> Result<Pending, DirectoryError> {
    match read(root, JOURNAL)? {
        Some(text) => Ok(Pending::of(parse(root, JOURNAL, &text)?)),
        None => Ok(Pending::default()),
    }
}

/// Returns the write of a file for a write to a module.
pub(super) fn file_write(write: &ModuleWrite) -> FileWrite {
    match write {
        ModuleWrite::Labels(module, write) => FileWrite::bytes(labels_path(*module), write.off, &write.bytes),
        ModuleWrite::Media(module, off, bytes) => FileWrite::bytes(media_path(*module), *off, bytes),
        ModuleWrite::Zeros(module, off, len) => {
            FileWrite::Zeros { file: media_path(*module), off: *off, len: *len }
        }
        ModuleWrite::CxlLabels(device, digits) => {
            FileWrite::Whole { file: cxl_labels_path(*device).into(), text: digits.clone() }
        }
        ModuleWrite::Key(name, text) => {
            let file = Path::new(KEYS).join(name);
            match text {
                Some(text) => FileWrite::Whole { file, text: text.clone() },
                None => FileWrite::Removed { file },
            }
        }
    }
}

/// Returns the change that replaces the state.
pub(super) fn change_of_state(state: &State) -> Change {
    Change { writes: vec![FileWrite::Whole { file: STATE.into(), text: state_text(state) }] }
}

/// Formats the state file.
pub(super) fn state_text(state: &State) -> String {
    toml::to_string(state).expect("a state has nothing that TOML can't say")
}

/// Formats the journal.
pub(super) fn journal_text(change: &Change) -> String {
    toml::to_string(change).expect("a change has nothing that TOML can't say")
}
