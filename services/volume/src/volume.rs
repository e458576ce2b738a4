//! The handle of a volume.

use crate::device::{Batch, BlockDevice, BlockError};
use crate::error::VolumeError;
use crate::raw::Raw;
use crate::recognise::{Found, recognise};
use lode_btt::Btt;
use lode_pmem::{Durability, Mapping, PmemError};
use lode_pool::{Access, LockedFile, PoolError};
use std::path::Path;
use std::sync::Arc;

/// A volume that is open and locked until drop.
pub struct Volume {
    device: Box<dyn BlockDevice>,
    /// Unlocked after the device is dropped.
    _lock: LockedFile,
}

impl Volume {
    /// Opens the volume at `path`, recognises its format, and finishes the writes that a crash left unfinished. A read-only
    /// volume is a private view, in which they are finished. `durability` replaces the detected one.
    ///
    /// # Errors
    /// [`VolumeError::At`] this path: [`VolumeError::File`] if another handle has it open, [`VolumeError::Absent`], and
    /// those of damage.
    ///
    /// # Cost
    /// That of [`Btt::open`] or of two headers.
    pub fn open(path: &Path, access: Access, durability: Option<Durability>) -> Result<Volume, VolumeError> {
        let open = || {
            let (lock, medium) = map(path, access, durability)?;
            let medium = Arc::new(medium);
            let device: Box<dyn BlockDevice> = match recognise(&medium)? {
                Found::Table(_) => Box::new(Btt::open(medium)?),
                Found::Raw(header, _) => Box::new(Raw::new(medium, header)),
            };
            Ok(Volume { device, _lock: lock })
        };
        open().map_err(|error: VolumeError| error.at(path))
    }
}

impl BlockDevice for Volume {
    fn block_size(&self) -> usize {
        self.device.block_size()
    }

    fn block_count(&self) -> u64 {
        self.device.block_count()
    }

    fn has_volatile_cache(&self) -> bool {
        self.device.has_volatile_cache()
    }

    fn run(&self, batch: Batch<'_, '_>) -> Result<(), BlockError> {
        self.device.run(batch)
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.device.flush()
    }
}

/// Locks and maps the file.
pub(crate) fn map(
    path: &Path,
    access: Access,
    durability: Option<Durability>,
) -> Result<(LockedFile, Mapping), VolumeError> {
    let lock = LockedFile::open(path, access)?;
    let mapping = map_locked(&lock, path, access, durability)?;
    Ok((lock, mapping))
}

/// Maps a file that is locked.
pub(crate) fn map_locked(
    lock: &LockedFile,
    path: &Path,
    access: Access,
    durability: Option<Durability>,
) -> Result<Mapping, VolumeError> {
    let options = match (access, durability) {
        (Access::ReadOnly, _) => Mapping::options().private_view(),
        (Access::ReadWrite, Some(durability)) => Mapping::options().durability(durability),
        (Access::ReadWrite, None) => Mapping::options(),
    };
    let file = lock
        .file()
        .try_clone()
        .map_err(|error| PoolError::Io { op: "dup", errno: error.raw_os_error().unwrap_or_default() })?;
    options.map_file(file, path).map_err(|error| match error {
        PmemError::Empty { .. } => VolumeError::Absent,
        error => error.into(),
    })
}
