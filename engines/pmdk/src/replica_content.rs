//! The content of a pool as its replicas hold it: part by part, and read from the first replica that has it.

use crate::error::PmdkError;
use crate::locked_part::LockedPart;
use crate::pool_set::{PoolSet, Replica};
use lode_layout::{BLOCK, align_down, align_up};
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are copied at a time.
const CHUNK: u64 = 1 << 20;

/// The bytes of the pool that a part holds, and where in the part they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartRange {
    /// In the pool.
    pub(crate) range: Range<u64>,
    /// Bytes before the content in the part.
    pub(crate) skip: u64,
}

impl PartRange {
    /// Returns the offset in the part of an offset in the pool.
    pub(crate) fn at(&self, off: u64) -> u64 {
        off - self.range.start + self.skip
    }
}

/// Returns the ranges of the parts of a replica, which lie back to back behind the first header.
pub(crate) fn ranges(set: &PoolSet, replica: &Replica) -> Vec<PartRange> {
    let mut start = 0;
    let range = |(index, part): (usize, &crate::pool_set::Part)| {
        let skip = set.skipped(index);
        let end = start + align_down(part.size, BLOCK).saturating_sub(skip);
        let found = PartRange { range: start..end, skip };
        start = end;
        found
    };
    replica.parts.iter().enumerate().map(range).collect()
}

/// A part that content is read from.
#[derive(Clone, Debug)]
pub(crate) struct SourcePart {
    pub(crate) lock: Arc<LockedPart>,
    pub(crate) place: PartRange,
    /// Ranges of the part that are lost.
    pub(crate) lost: Vec<Range<u64>>,
}

/// The parts that content is read from, the best replica first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) replicas: Vec<Vec<SourcePart>>,
}

/// The reason why content could not be copied.
#[derive(Debug)]
pub(crate) enum CopyError {
    /// No replica has the page at this offset of the pool.
    Lost(u64),
    Pool(PmdkError),
}

impl From<PmdkError> for CopyError {
    fn from(error: PmdkError) -> CopyError {
        CopyError::Pool(error)
    }
}

impl Sources {
    /// Copies the content of a pool of `size` bytes that belongs into a part, but for the first header. Zeros of a new file are left
    /// out.
    pub(crate) fn copy_into(
        &self,
        target: &LockedPart,
        place: &PartRange,
        size: u64,
        is_new: bool,
    ) -> Result<(), CopyError> {
        let (mut at, end) = (place.range.start.max(BLOCK), place.range.end.min(align_up(size, BLOCK)));
        let mut bytes = vec![0; CHUNK as usize];
        while at < end {
            let bytes = &mut bytes[..CHUNK.min(end - at) as usize];
            self.read(at, bytes)?;
            if let Some(past) = usize::try_from(size.saturating_sub(at)).ok().filter(|len| *len < bytes.len())
            {
                bytes[past..].fill(0);
            }
            for (index, page) in bytes.chunks(BLOCK as usize).enumerate() {
                if !is_new || page.iter().any(|byte| *byte != 0) {
                    target.write_content(place.at(at + index as u64 * BLOCK), page)?;
                }
            }
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Reads bytes of the pool, whole pages, each from the first replica that has it.
    fn read(&self, off: u64, bytes: &mut [u8]) -> Result<(), CopyError> {
        for replica in &self.replicas {
            if read_from(replica, off, bytes)? {
                return Ok(());
            }
        }
        for (index, page) in bytes.chunks_mut(BLOCK as usize).enumerate() {
            let at = off + index as u64 * BLOCK;
            let mut is_read = false;
            for replica in &self.replicas {
                is_read = is_read || read_from(replica, at, page)?;
            }
            if !is_read {
                return Err(CopyError::Lost(at));
            }
        }
        Ok(())
    }
}

/// Reads bytes of the pool from a replica. Returns false if it has lost any of them, or has no part for them.
fn read_from(parts: &[SourcePart], off: u64, bytes: &mut [u8]) -> Result<bool, PmdkError> {
    let end = off + bytes.len() as u64;
    let mut done = 0;
    for part in parts {
        let (from, to) = (off.max(part.place.range.start), end.min(part.place.range.end));
        if from >= to {
            continue;
        }
        let (first, last) = (part.place.at(from), part.place.at(from) + (to - from));
        if part.lost.iter().any(|lost| lost.start < last && first < lost.end) {
            return Ok(false);
        }
        part.lock.read_content(first, &mut bytes[(from - off) as usize..(to - off) as usize])?;
        done += to - from;
    }
    Ok(done == bytes.len() as u64)
}
