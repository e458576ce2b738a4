//! The handle of a volume.

use crate::atomic::Atomic;
use crate::block_error::BlockError;
use crate::device::{BlockDevice, Extent, Request};
use crate::error::VolumeError;
use crate::raw::Raw;
use crate::recognise::{Found, pool_header, recognise};
use lode_blocks::BlockPool;
use lode_btt::Btt;
use lode_pmem::{Durability, Mapping, PmemError};
use lode_pool::{Access, LockedFile, OpenOptions, PoolError};
use std::path::Path;
use std::sync::Arc;

/// A volume that is open and locked until drop.
pub struct Volume {
    device: Box<dyn Device>,
    /// Unlocked after the device is dropped. A pool has its own lock.
    _lock: Option<LockedFile>,
}

/// A device that can be closed.
trait Device: BlockDevice {
    /// Leaves nothing that the next opening has to finish. All writes are durable before.
    fn close(self: Box<Self>) -> Result<(), VolumeError> {
        Ok(())
    }
}

impl Device for Btt<Arc<Mapping>> {}

impl Device for Raw {}

impl Device for Atomic {
    fn close(self: Box<Self>) -> Result<(), VolumeError> {
        Ok(self.0.close()?)
    }
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
    /// That of [`Btt::open`], of [`BlockPool::open`], or of two headers.
    pub fn open(path: &Path, access: Access, durability: Option<Durability>) -> Result<Volume, VolumeError> {
        let open = || {
            let (lock, medium) = map(path, access, durability)?;
            let medium = Arc::new(medium);
            let device: Box<dyn Device> = match recognise(&medium)? {
                Found::Table(_) => Box::new(Btt::open(medium)?),
                Found::Raw(headers) => {
                    if access == Access::ReadWrite {
                        headers.finish(&*medium)?;
                    }
                    Box::new(Raw::new(medium, headers.header))
                }
                Found::Pool => {
                    pool_header(&medium)?;
                    drop((medium, lock));
                    let options = OpenOptions { durability, ..OpenOptions::new(access) };
                    let device = Box::new(Atomic(BlockPool::open(path, &options)?));
                    return Ok(Volume { device, _lock: None });
                }
            };
            Ok(Volume { device, _lock: Some(lock) })
        };
        open().map_err(|error: VolumeError| error.at(path))
    }

    /// Opens the file at `path` as plain blocks from its first byte on, whatever its content is: for a file without a header.
    /// The blocks have 4096 bytes, or 512 if the file does not have whole ones of 4096; a rest below 512 is not used.
    ///
    /// # Errors
    /// [`VolumeError::At`] this path: [`VolumeError::File`] if another handle has it open, [`VolumeError::Absent`] if it has
    /// no block.
    ///
    /// # Cost
    /// That of mapping it.
    pub fn open_headerless(
        path: &Path,
        access: Access,
        durability: Option<Durability>,
    ) -> Result<Volume, VolumeError> {
        let open = || {
            let (lock, medium) = map(path, access, durability)?;
            let device = Raw::headerless(Arc::new(medium)).ok_or(VolumeError::Absent)?;
            Ok(Volume { device: Box::new(device), _lock: Some(lock) })
        };
        open().map_err(|error: VolumeError| error.at(path))
    }

    /// Makes all writes durable, and leaves nothing that the next opening has to finish. A volume that is dropped instead
    /// leaves what a crash would leave.
    ///
    /// # Errors
    /// Fails if a sync does, now or before.
    ///
    /// # Cost
    /// That of a [`flush`](BlockDevice::flush), and of a checkpoint of atomic blocks.
    pub fn close(self) -> Result<(), VolumeError> {
        if !self.is_read_only() {
            self.flush()?;
        }
        self.device.close()
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

    fn has_process_cache(&self) -> bool {
        self.device.has_process_cache()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn run(&self, batch: &mut [Request<'_>]) {
        self.device.run(batch);
    }

    fn status(&self, block: u64, count: u64) -> Result<Extent, BlockError> {
        self.device.status(block, count)
    }

    fn can_grow(&self) -> bool {
        self.device.can_grow()
    }

    fn grow(&self, capacity: u64) -> Result<(), VolumeError> {
        self.device.grow(capacity)
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
