//! Copies between a range of a region and a contiguous file.

use super::target::Window;
use crate::directory::{Media, Staged};
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::file::progress::CopyProgress;
use crate::file::sparse;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Copies the window to a file that is a hole so far.
///
/// # Cost
/// Reads and writes only data, not holes, in parts of a MiB.
pub(super) fn flatten(
    media: &mut Media,
    window: &Window,
    file: &File,
    path: &Path,
    progress: &mut CopyProgress<'_>,
) -> Result<(), PlatformError> {
    let Window { region, range, image_off } = window;
    // The check includes holes: media errors must not become zeros.
    media.check(region, range.clone())?;
    let mut at = range.start;
    let mut part = Vec::new();
    while let Some(start) = media.next_data(region, at..range.end)? {
        part.resize((range.end - start).min(sparse::PART) as usize, 0);
        media.read(region, start, &mut part)?;
        sparse::fill(file, image_off + start - range.start, &part).map_err(|error| FileError {
            what: "writing",
            path: path.to_owned(),
            error,
        })?;
        let end = start + part.len() as u64;
        progress.advance(end - at)?;
        at = end;
    }
    Ok(progress.advance(range.end - at)?)
}

/// Copies data from an image file to the modules of the window, whose range is a hole so far.
pub(super) fn spread(
    file: &File,
    path: &Path,
    window: &Window,
    staged: &Staged,
    progress: &mut CopyProgress<'_>,
) -> Result<(), PlatformError> {
    let Window { region, range, image_off } = window;
    each_part(file, path, *image_off..window.image_end(), progress, |at, part| {
        staged.fill(region, range.start + at - image_off, part)
    })
}

/// Calls `take` with each data part of a file's range, and the part's offset.
pub(super) fn each_part(
    file: &File,
    path: &Path,
    range: Range<u64>,
    progress: &mut CopyProgress<'_>,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), FileError>,
) -> Result<(), PlatformError> {
    let reading = |error| FileError { what: "reading", path: path.to_owned(), error };
    let mut at = range.start;
    let mut part = Vec::new();
    while let Some(data) = sparse::next_data(file, at..range.end).map_err(reading)? {
        part.resize((data.end - data.start).min(sparse::PART) as usize, 0);
        file.read_exact_at(&mut part, data.start).map_err(reading)?;
        take(data.start, &part)?;
        let end = data.start + part.len() as u64;
        progress.advance(end - at)?;
        at = end;
    }
    Ok(progress.advance(range.end - at)?)
}
