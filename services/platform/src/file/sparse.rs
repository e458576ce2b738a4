//! Files with holes.

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes of one read or write.
pub(crate) const PART: u64 = 1 << 20;
/// Size in bytes of the smallest hole that is kept.
const GRANULARITY: usize = 4096;

/// Returns the first part of `range` that is no hole; `None` if the range is a hole.
pub(crate) fn next_data(file: &File, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
    let start = match seek(file, SeekFrom::Data(range.start)) {
        Ok(start) if start < range.end => start,
        // The rest of the file is a hole.
        Ok(_) | Err(Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let end = match seek(file, SeekFrom::Hole(start)) {
        Ok(end) => end.min(range.end),
        Err(Errno::NXIO) => range.end,
        Err(errno) => return Err(errno.into()),
    };
    Ok(Some(start..end))
}

/// Writes bytes to a hole of a file, and leaves holes where the bytes are zeros.
pub(crate) fn fill(file: &File, off: u64, bytes: &[u8]) -> io::Result<()> {
    let grains = bytes.chunks(GRANULARITY).zip((off..).step_by(GRANULARITY));
    for (grain, at) in grains {
        if grain.iter().any(|byte| *byte != 0) {
            file.write_all_at(grain, at)?;
        }
    }
    Ok(())
}
