//! The journal: one file that says what a change writes, before it is written.
//!
//! ```text
//! journal.new   written and durable       killed here: the change was not done; the next command removes it
//! journal       renamed, name durable     killed from here on: the next command writes what it says, again
//! the files     written and durable
//! journal       removed, and that is durable
//! ```
//!
//! What the journal says can be written twice: it holds whole files, and bytes and zeros at offsets, no differences. A
//! file that takes the place of another one was durable before the journal; where it is gone, it has the place already.

use super::step::Step;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The journal of the change that is under way.
pub(crate) const JOURNAL: &str = "journal";
/// The journal before it is whole.
pub(crate) const JOURNAL_NEW: &str = "journal.new";
/// So many files are made durable one by one; more of them are quicker together.
const FILES_ONE_BY_ONE: usize = 16;
/// Behind the name of a file that is going to take the place of the one with the name.
const NEW: &str = "new";

/// What a change writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// In this order.
    #[serde(rename = "write", default)]
    pub(crate) writes: Vec<FileWrite>,
}

/// What a change writes to one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum FileWrite {
    /// The file is replaced by this text.
    Whole { file: PathBuf, text: String },
    /// These bytes, as hexadecimal digits, go into the file at this offset.
    Bytes { file: PathBuf, off: u64, hex: String },
    /// The file is replaced by another one, which is durable.
    Replaced { file: PathBuf, by: PathBuf },
    /// So many zeros go into the file at this offset.
    Zeros { file: PathBuf, off: u64, len: u64 },
}

impl FileWrite {
    /// These bytes go into the file at this offset.
    pub(crate) fn bytes(file: PathBuf, off: u64, bytes: &[u8]) -> FileWrite {
        let hex = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let hex = hex.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
        FileWrite::Bytes { file, off, hex }
    }
}

impl Change {
    /// The steps that make the journal durable: when all of them are done, the change is done.
    pub(crate) fn steps_to_note(&self, text: String) -> Vec<Step> {
        let new = PathBuf::from(JOURNAL_NEW);
        vec![
            Step::Create(new.clone(), text.into_bytes()),
            Step::Persist(new.clone()),
            Step::Rename(new, JOURNAL.into()),
            Step::PersistNames("".into()),
        ]
    }

    /// The steps that write what the change writes: each file is made durable once, behind all writes to it.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = self.writes.iter().flat_map(FileWrite::steps).collect();
        let written = self.writes.iter().filter_map(|write| match write {
            FileWrite::Bytes { file, .. } | FileWrite::Zeros { file, .. } => Some(file),
            FileWrite::Whole { .. } | FileWrite::Replaced { .. } => None,
        });
        let written: BTreeSet<&PathBuf> = written.collect();
        if written.len() > FILES_ONE_BY_ONE {
            steps.push(Step::PersistAll);
        } else {
            steps.extend(written.into_iter().cloned().map(Step::Persist));
        }
        steps
    }

    /// The steps that do what the journal says, and take it away.
    pub(crate) fn steps_to_finish(&self) -> Vec<Step> {
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
                vec![
                    Step::Create(new.clone(), text.clone().into_bytes()),
                    Step::Persist(new.clone()),
                    Step::Rename(new, file.clone()),
                    Step::PersistNames(folder),
                ]
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

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
