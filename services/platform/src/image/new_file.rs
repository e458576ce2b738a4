//! New image files, which get their name when they are complete, or never.

use super::error::ImageError;
use super::error_kind::ImageErrorKind;
use crate::error::PlatformError;
use crate::file::error::FileError;
use lode_pmem::{NewFile, PmemError};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// Creates a file of `len` bytes, all of them a hole, that will become `path`.
pub(super) fn create(path: &Path, len: u64) -> Result<NewFile, PlatformError> {
    if path.symlink_metadata().is_ok() {
        return Err(ImageError::of(path, ImageErrorKind::Exists).into());
    }
    let new = NewFile::create(path).map_err(|error| refused("making", path, &error))?;
    let made = new.file().set_len(len);
    made.map_err(|error| FileError { what: "making", path: path.to_owned(), error })?;
    Ok(new)
}

/// Gives the file its name, durably. An existing file with the name stays unchanged.
pub(super) fn publish(new: NewFile, path: &Path) -> Result<(), PlatformError> {
    new.publish().map_err(|error| refused("writing", path, &error))
}

fn refused(what: &'static str, path: &Path, error: &PmemError) -> PlatformError {
    match error {
        PmemError::Io { errno, .. } if *errno == Errno::EXIST.raw_os_error() => {
            ImageError::of(path, ImageErrorKind::Exists).into()
        }
        PmemError::Io { errno, .. } => {
            let error = io::Error::from_raw_os_error(*errno);
            FileError { what, path: path.to_owned(), error }.into()
        }
        // The path does not end with a name.
        _ => ImageError::of(path, ImageErrorKind::NoFile).into(),
    }
}
