//! A mapped pool that may be too damaged to open.

use crate::error::PoolError;
use crate::file::{OpenOptions, map};
use crate::headers::{Headers, check_heap};
use crate::lock::{Access, LockedFile};
use lode_pmem::{Mapping, Medium, allocate};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// The medium of a pool that may be too damaged to open, with the lock on it.
#[derive(Debug)]
pub struct UncheckedPool {
    // In this order: the mapping ends before the lock.
    mapping: Arc<Mapping>,
    _file: LockedFile,
}

impl UncheckedPool {
    /// Returns the mapped medium. The lock lasts as long as this value, so no clone outlives it.
    pub fn medium(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

impl lode_pmem::Layer for UncheckedPool {
    type Inner = Mapping;

    fn inner(&self) -> &Mapping {
        &self.mapping
    }
}

impl Deref for UncheckedPool {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

/// Maps a medium whose pool may be too damaged to open, for a check (reading, a private view). The headers are not
/// read, so the layout in `options` is ignored. The lock is released with the returned
/// value.
///
/// # Errors
/// [`PoolError::InUse`], [`PoolError::NotAFile`] and [`PoolError::Io`], in [`PoolError::At`].
pub fn map_unchecked(path: &Path, options: &OpenOptions) -> Result<UncheckedPool, PoolError> {
    let mapped = LockedFile::open(path, options.access).and_then(|file| {
        let mapping = map(&file, path, options, None)?;
        Ok(UncheckedPool { mapping: Arc::new(mapping), _file: file })
    });
    mapped.map_err(|error| error.at(path))
}

/// Maps a medium whose pool may be too damaged to open, for a repair, with the lock for writing. A file that was cut
/// short is first extended to the length in its header. The missing bytes then read as zeros, and the repair of the
/// content finds out what was lost with them. Returns the number of those bytes, too.
///
/// # Errors
/// As [`map_unchecked`]; [`PoolError::NoHeap`] of another pool, whose file keeps its length; [`PoolError::NoSpace`] when the disk has no room for the missing bytes: the file then has its old
/// length. A device that is too short is mapped as it is.
pub fn map_for_repair(path: &Path, options: &OpenOptions) -> Result<(UncheckedPool, u64), PoolError> {
    let mapped = LockedFile::open(path, Access::ReadWrite).and_then(|file| {
        let options = OpenOptions { access: Access::ReadWrite, ..options.clone() };
        let mapping = map(&file, path, &options, None)?;
        let found = mapping.memory().len();
        let want = match Headers::read_any_len(&mapping) {
            Ok(headers) => {
                check_heap(&headers.current().layout)?;
                headers.geometry().size()
            }
            Err(_) => found,
        };
        let is_file = file.file().metadata().map_err(PoolError::std("stat"))?.is_file();
        let is_short = is_file && want > found;
        let mapping = if is_short {
            drop(mapping);
            allocate(file.file(), 0, want)
                .map_err(|error| PoolError::allocation("allocate", &error, want))?;
            map(&file, path, &options, None)?
        } else {
            mapping
        };
        Ok((
            UncheckedPool { mapping: Arc::new(mapping), _file: file },
            if is_short { want - found } else { 0 },
        ))
    });
    mapped.map_err(|error| error.at(path))
}
