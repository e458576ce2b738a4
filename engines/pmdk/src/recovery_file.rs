//! The files in which PMDK keeps the lost ranges of a set while it repairs them: one for each part, beside the set file.
//!
//! A line has the offset of a range in the part and its bytes, as decimal numbers. The line `0 0` is the last one: a file without it
//! is incomplete. Ranges of complete files were cleared, and may not have been restored.

use crate::bad_blocks::recovery_path;
use crate::error::PmdkError;
use crate::pool_set::PoolSet;
use crate::replica_error::{ReplicaError, ReplicaFault};
use crate::staged_part::persist_names;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

/// The lost ranges of each part of each replica.
pub(crate) type LostRanges = Vec<Vec<Vec<Range<u64>>>>;

/// The recovery files of a set.
#[derive(Debug)]
pub(crate) struct RecoveryFiles {
    /// Those that are there.
    paths: Vec<PathBuf>,
    /// True if each part that is there has one.
    are_all: bool,
}

impl RecoveryFiles {
    /// Looks for the recovery files of a set.
    pub(crate) fn find(set: &PoolSet) -> RecoveryFiles {
        let mut files = RecoveryFiles { paths: Vec::new(), are_all: true };
        for (replica, parts) in set.replicas.iter().enumerate() {
            for (index, part) in parts.parts.iter().enumerate() {
                if part.path.metadata().is_err() {
                    continue;
                }
                let path = recovery_path(&set.path, replica, index);
                match path.symlink_metadata() {
                    Ok(_) => files.paths.push(path),
                    Err(_) => files.are_all = false,
                }
            }
        }
        files
    }

    pub(crate) fn is_any(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Reads the ranges. `None` if a file is missing, or is incomplete: then nothing was cleared.
    pub(crate) fn read(&self, set: &PoolSet) -> Result<Option<LostRanges>, ReplicaError> {
        if !self.is_any() || !self.are_all {
            return Ok(None);
        }
        let mut all = LostRanges::new();
        for (replica, parts) in set.replicas.iter().enumerate() {
            let mut of_replica = Vec::new();
            for index in 0..parts.parts.len() {
                let path = recovery_path(&set.path, replica, index);
                if !self.paths.contains(&path) {
                    of_replica.push(Vec::new());
                    continue;
                }
                let text = fs::read(&path).map_err(PmdkError::io("open", &path))?;
                match parse(&text) {
                    Ok(Some(ranges)) => of_replica.push(ranges),
                    Ok(None) => return Ok(None),
                    Err(Unsorted) => {
                        return Err(ReplicaError::set(&set.path)(ReplicaFault::RecoveryOrder(path)));
                    }
                }
            }
            all.push(of_replica);
        }
        Ok(Some(all))
    }

    /// Removes the files, durably.
    pub(crate) fn remove(&self) -> Result<(), PmdkError> {
        for path in &self.paths {
            fs::remove_file(path).map_err(PmdkError::io("unlink", path))?;
        }
        persist_names(self.paths.iter().map(PathBuf::as_path))
    }
}

/// The ranges of a file are not in the order of their offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsorted;

/// Reads the text of a recovery file. `None` if it is incomplete.
pub fn parse(text: &[u8]) -> Result<Option<Vec<Range<u64>>>, Unsorted> {
    let mut numbers = text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|word| str::from_utf8(word).ok().and_then(|word| word.parse::<u64>().ok()));
    let (mut ranges, mut min) = (Vec::new(), 0);
    loop {
        let (Some(Some(off)), Some(Some(len))) = (numbers.next(), numbers.next()) else { return Ok(None) };
        if (off, len) == (0, 0) {
            return Ok(Some(ranges));
        }
        let Some(end) = off.checked_add(len) else { return Ok(None) };
        if off < min {
            return Err(Unsorted);
        }
        min = end;
        ranges.push(off..end);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ranges_are_read_up_to_the_last_line() {
        assert_eq!(parse(b"0 0\n"), Ok(Some(Vec::new())));
        assert_eq!(parse(b"512 4096\n8192 512\n0 0\nrest"), Ok(Some(vec![512..4608, 8192..8704])));
        for incomplete in [&b""[..], b"512 4096\n", b"512", b"x 1\n0 0\n", b"18446744073709551615 1\n0 0\n"] {
            assert_eq!(parse(incomplete), Ok(None), "{incomplete:?}");
        }
        assert_eq!(parse(b"512 4096\n4096 1\n0 0\n"), Err(Unsorted));
    }
}
