//! Journal: a file with the writes of a change, made durable before them.
//!
//! ```text
//! journal.new   written and durable       a crash here: the change was not made, and the next command removes the file
//! journal       renamed, name durable     a crash from here on: the next command performs the writes again
//! the files     written and durable
//! journal       removed, and the removal is durable
//! ```
//!
//! The writes are idempotent: whole files, and bytes and zeros at offsets, no differences. A replacement file was
//! durable before the journal. If it is missing, it has already replaced the other file. A file that is to be removed may
//! be missing, too.

use super::step::Step;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The journal of the pending change.
pub(crate) const JOURNAL: &str = "journal";
/// The journal before it is complete.
pub(crate) const JOURNAL_NEW: &str = "journal.new";
/// Up to this number, files are synced one by one. For more of them one sync of the file system is faster.
const FILES_ONE_BY_ONE: usize = 16;
/// Suffix of a file that will replace the one with the name.
const NEW: &str = "new";

/// Writes of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// The writes, in this order.
    #[serde(rename = "write", default)]
    pub(crate) writes: Vec<FileWrite>,
}

/// Write of a change to one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum FileWrite {
    /// Replaces the file by this text.
    Whole { file: PathBuf, text: String },
    /// Writes these bytes, as hexadecimal digits, at this offset.
    Bytes { file: PathBuf, off: u64, hex: String },
    /// Replaces the file by another one, which is durable.
    Replaced { file: PathBuf, by: PathBuf },
    /// Removes the file, whose folder exists.
    Removed { file: PathBuf },
    /// Makes the file with this length, of zeros, and its folder. Leaves a file that exists.
    Made { file: PathBuf, len: u64 },
    /// Writes `len` zeros at this offset.
    Zeros { file: PathBuf, off: u64, len: u64 },
}

impl FileWrite {
    /// Makes a write of these bytes at this offset.
    pub(crate) fn bytes(file: PathBuf, off: u64, bytes: &[u8]) -> FileWrite {
        let hex = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let hex = hex.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
        FileWrite::Bytes { file, off, hex }
    }
}

impl Change {
    /// Returns the steps that make the journal durable. The change is made when all of them are done.
    pub(crate) fn steps_to_journal(&self, text: String) -> Vec<Step> {
        let new = PathBuf::from(JOURNAL_NEW);
        vec![
            Step::Create(new.clone(), text.into_bytes()),
            Step::Persist(new.clone()),
            Step::Rename(new, JOURNAL.into()),
            Step::PersistNames("".into()),
        ]
    }

    /// Returns the steps of the writes. Each file is synced once, after all writes to it.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = self.writes.iter().flat_map(FileWrite::steps).collect();
        let written = self.writes.iter().filter_map(|write| match write {
            FileWrite::Bytes { file, .. } | FileWrite::Zeros { file, .. } | FileWrite::Made { file, .. } => {
                Some(file)
            }
            FileWrite::Whole { .. } | FileWrite::Replaced { .. } | FileWrite::Removed { .. } => None,
        });
        let written: BTreeSet<&PathBuf> = written.collect();
        if written.len() > FILES_ONE_BY_ONE {
            steps.push(Step::PersistAll);
        } else {
            steps.extend(written.into_iter().cloned().map(Step::Persist));
        }
        steps
    }

    /// Returns the steps that perform the journal's writes and remove the journal.
    pub(crate) fn steps_to_apply(&self) -> Vec<Step> {
        let mut steps = self.steps();
        steps.push(Step::Remove(JOURNAL.into()));
        steps.push(Step::PersistNames("".into()));
        steps
    }
}

impl FileWrite {
    fn steps(&self) -> Vec<Step> {
        match self {
            FileWrite::Whole { file, text } => {
                let new = file.with_extension(NEW);
                let folder = file.parent().map(PathBuf::from).unwrap_or_default();
                let mut steps = Vec::new();
                if folder != Path::new("") {
                    steps.extend([Step::MakeFolder(folder.clone()), Step::PersistNames("".into())]);
                }
                steps.extend([
                    Step::Create(new.clone(), text.clone().into_bytes()),
                    Step::Persist(new.clone()),
                    Step::Rename(new, file.clone()),
                    Step::PersistNames(folder),
                ]);
                steps
            }
            FileWrite::Made { file, len } => {
                let folder = file.parent().map(PathBuf::from).unwrap_or_default();
                vec![
                    Step::MakeFolder(folder.clone()),
                    Step::PersistNames("".into()),
                    Step::Make(file.clone(), *len),
                    Step::PersistNames(folder),
                ]
            }
            FileWrite::Removed { file } => {
                let folder = file.parent().map(PathBuf::from).unwrap_or_default();
                vec![Step::Discard(file.clone()), Step::PersistNames(folder)]
            }
            FileWrite::Replaced { file, by } => {
                let folder = file.parent().map(PathBuf::from).unwrap_or_default();
                vec![Step::Replace(by.clone(), file.clone()), Step::PersistNames(folder)]
            }
            FileWrite::Bytes { file, off, hex } => {
                vec![Step::Write(file.clone(), *off, from_hex(hex))]
            }
            FileWrite::Zeros { file, off, len } => vec![Step::Zero(file.clone(), *off, *len)],
        }
    }
}

/// Decodes the bytes of a write.
pub(super) fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
