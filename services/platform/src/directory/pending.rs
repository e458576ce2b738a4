//! A change that is durable but not completely written: what a reader sees in place of the files.
//!
//! A full or read-only file system may refuse the writes of a journal. The change is made all the same, so a command
//! that only reads combines the files with the journal.

use super::journal::{Change, FileWrite, from_hex};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The writes of a journal, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    writes: Vec<PendingWrite>,
}

#[derive(Clone, Debug)]
enum PendingWrite {
    /// The file has this text.
    Text(PathBuf, String),
    /// The file is the second one, or already was that one if it is missing.
    Replaced(PathBuf, PathBuf),
    /// The file has these bytes at this offset.
    Bytes(PathBuf, u64, Vec<u8>),
    /// The file has zeros in this range.
    Zeros(PathBuf, Range<u64>),
}

impl Pending {
    /// Returns what a reader sees of a change.
    pub(super) fn of(change: Change) -> Pending {
        let writes = change.writes.into_iter().filter_map(|write| match write {
            FileWrite::Whole { file, text } => Some(PendingWrite::Text(file, text)),
            FileWrite::Replaced { file, by } => Some(PendingWrite::Replaced(file, by)),
            FileWrite::Bytes { file, off, hex } => Some(PendingWrite::Bytes(file, off, from_hex(&hex))),
            FileWrite::Zeros { file, off, len } => {
                Some(PendingWrite::Zeros(file, off..off.saturating_add(len)))
            }
            // Only commands that change the directory read the files that a change removes.
            FileWrite::Removed { .. } => None,
            // A file that is missing is read as zeros.
            FileWrite::Made { .. } => None,
        });
        Pending { writes: writes.collect() }
    }

    /// Returns the new text of a file; `None` if the change does not replace it.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.writes.iter().rev().find_map(|write| match write {
            PendingWrite::Text(file, text) if file == Path::new(name) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Returns the path of the file that is `file` after the change, without its writes at offsets.
    pub(super) fn path(&self, root: &Path, file: &Path) -> PathBuf {
        let replaced = self.writes.iter().rev().find_map(|write| match write {
            PendingWrite::Replaced(of, by) if of == file => Some(root.join(by)),
            _ => None,
        });
        replaced.filter(|path| path.exists()).unwrap_or_else(|| root.join(file))
    }

    /// Applies the change to `bytes`, which were read at `off` of the file at [`path`](Pending::path).
    pub(super) fn apply(&self, file: &Path, off: u64, bytes: &mut [u8]) {
        for write in &self.writes {
            let (range, new) = match write {
                PendingWrite::Bytes(of, start, new) if of == file => {
                    (*start..start + new.len() as u64, Some(new))
                }
                PendingWrite::Zeros(of, range) if of == file => (range.clone(), None),
                _ => continue,
            };
            let common = range.start.max(off)..range.end.min(off + bytes.len() as u64);
            if common.start >= common.end {
                continue;
            }
            let part = &mut bytes[(common.start - off) as usize..(common.end - off) as usize];
            match new {
                Some(new) => {
                    let from = (common.start - range.start) as usize;
                    part.copy_from_slice(&new[from..from + part.len()]);
                }
                None => part.fill(0),
            }
        }
    }

    /// Returns the first byte in `range` of the file to which the change writes other bytes than zeros.
    pub(super) fn next_data(&self, file: &Path, range: Range<u64>) -> Option<u64> {
        let written = self.writes.iter().filter_map(|write| match write {
            PendingWrite::Bytes(of, off, bytes) if of == file => Some(*off..off + bytes.len() as u64),
            _ => None,
        });
        let inside = written.filter(|written| written.start < range.end && range.start < written.end);
        inside.map(|written| written.start.max(range.start)).min()
    }
}
