//! The proof that a name leads to the file that a description means.
//!
//! An inode number may be used again after a removal, so the UUIDs in the header of a part are compared, too. The number of the device
//! is left out: it may be another one after a boot. A part without a header is told by its inode number alone.

use crate::error::PmdkError;
use crate::locked_part::read_what_is_there;
use lode_layout::{PmdkPartHeader, PmdkUuidField, StoredPmdkHeader};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file by its inode number, and the UUIDs of pool and part in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileProof {
    pub(crate) ino: u64,
    /// `None` for a part without a header.
    pub(crate) uuids: Option<[u128; 2]>,
}

impl FileProof {
    /// Returns the proof of an open file at `path`.
    pub(crate) fn of(file: &File, path: &Path, has_header: bool) -> Result<FileProof, PmdkError> {
        let ino = file.metadata().map_err(PmdkError::io("fstat", path))?.ino();
        let mut uuids = None;
        if has_header {
            let mut bytes = [0; PmdkPartHeader::LEN];
            read_what_is_there(file, path, 0, &mut bytes)?;
            let header = StoredPmdkHeader::new(bytes);
            let fields = [PmdkUuidField::PoolSet, PmdkUuidField::Part];
            uuids = Some(fields.map(|field| u128::from_be_bytes(header.uuid(field))));
        }
        Ok(FileProof { ino, uuids })
    }

    /// Returns true if the file has this name.
    pub(crate) fn is_at(&self, path: &Path) -> Result<bool, PmdkError> {
        if !fs::metadata(path).is_ok_and(|found| found.is_file() && found.ino() == self.ino) {
            return Ok(false);
        }
        // Another process may put a pipe there meanwhile, whose open would wait.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(CWD, path, flags, Mode::empty()).map_err(PmdkError::errno("open", path))?;
        Ok(FileProof::of(&File::from(file), path, self.uuids.is_some())? == *self)
    }

    /// Reads a proof as [`Display`](std::fmt::Display) writes it.
    pub(crate) fn parse(text: &str) -> Option<FileProof> {
        let (ino, uuids) = text.split_once(':')?;
        let uuids = match uuids {
            "-" => None,
            digits if digits.len() == 64 && digits.is_ascii() => {
                let (pool, part) = digits.split_at(32);
                Some([u128::from_str_radix(pool, 16).ok()?, u128::from_str_radix(part, 16).ok()?])
            }
            _ => return None,
        };
        let found = FileProof { ino: ino.parse().ok()?, uuids };
        // Signs and leading zeros are read by the standard library, and written by no description.
        (found.to_string() == text).then_some(found)
    }
}

impl fmt::Display for FileProof {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.uuids {
            Some([pool, part]) => write!(out, "{}:{pool:032x}{part:032x}", self.ino),
            None => write!(out, "{}:-", self.ino),
        }
    }
}
