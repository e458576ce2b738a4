//! An open part, with the lock that PMDK takes.

use crate::error::PmdkError;
use lode_layout::{Durability, PmdkPartHeader, PoolOffset};
use lode_pmem::{FaultScope, LockHolder, Mapping, Medium, PmemError};
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::process;

/// The operations that a handle allows on a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmdkAccess {
    /// Changing it. Excludes every other handle.
    ReadWrite,
    /// Changing a view of this process, of which no store reaches the files. Excludes every other handle, as PMDK's
    /// copy_on_write.at_open does.
    CopyOnWrite,
    /// Reading it, through a private view. Excludes writers.
    ReadOnly,
}

/// A file or device-DAX node, with flock(2) on its description: the lock of PMDK, so that its programs and ours exclude
/// each other. A mapping of the file keeps the description, and with it the lock.
#[derive(Debug)]
pub(crate) struct LockedPart {
    path: PathBuf,
    file: File,
    locked_by: u32,
}

impl LockedPart {
    /// Opens and locks a part.
    pub(crate) fn open(path: &Path, access: PmdkAccess) -> Result<LockedPart, PmdkError> {
        // Looked at before it is opened: the open of a pipe waits.
        let kind = path.metadata().map_err(PmdkError::io("open", path))?.file_type();
        if !kind.is_file() && !kind.is_char_device() {
            return Err(PmdkError::NotAFile { path: path.to_owned() });
        }
        let is_written = access == PmdkAccess::ReadWrite;
        let file = File::options().read(true).write(is_written).open(path);
        LockedPart::lock(file.map_err(PmdkError::io("open", path))?, path, access)
    }

    /// Locks an open file. Does not wait.
    pub(crate) fn lock(file: File, path: &Path, access: PmdkAccess) -> Result<LockedPart, PmdkError> {
        let operation = match access {
            PmdkAccess::ReadOnly => FlockOperation::NonBlockingLockShared,
            PmdkAccess::ReadWrite | PmdkAccess::CopyOnWrite => FlockOperation::NonBlockingLockExclusive,
        };
        let path = path.to_owned();
        match flock(&file, operation) {
            Ok(()) => Ok(LockedPart { path, file, locked_by: process::id() }),
            Err(Errno::WOULDBLOCK) => {
                let holder = fstat(&file).ok().and_then(|stat| LockHolder::find(stat.st_dev, stat.st_ino));
                Err(PmdkError::InUse { path, holder })
            }
            Err(errno) => Err(PmdkError::errno("flock", &path)(errno)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns another handle of the same description, for a mapping.
    pub(crate) fn duplicate(&self) -> Result<File, PmdkError> {
        self.file.try_clone().map_err(PmdkError::io("dup", &self.path))
    }

    /// Reads the first 4096 bytes, as far as there are so many.
    pub(crate) fn read_header(&self) -> Result<[u8; PmdkPartHeader::LEN], PmdkError> {
        read_at(&self.file, &self.path, 0)
    }

    /// Writes bytes into the header, durably.
    pub(crate) fn write_header(&self, at: u64, bytes: &[u8]) -> Result<(), PmdkError> {
        if is_device(&self.file, &self.path)? {
            let options = Mapping::options();
            let medium = match options.clone().map_file(self.duplicate()?, &self.path) {
                Err(PmemError::Volatile { .. }) => {
                    options.durability(Durability::None).map_file(self.duplicate()?, &self.path)
                }
                mapped => mapped,
            }?;
            let stored = FaultScope::run(|| {
                medium.store(PoolOffset::new(at), bytes);
                medium.flush(PoolOffset::new(at), bytes.len() as u64);
            });
            stored.map_err(PmdkError::memory(&self.path))?;
            // ORDER: the bytes before the caller's next step. Stop here: the header is as before, or has any of them.
            return medium.drain().map_err(PmdkError::drain(&self.path));
        }
        self.file.write_all_at(bytes, at).map_err(PmdkError::io("write", &self.path))?;
        // ORDER: as above.
        retry_on_intr(|| rustix::fs::fsync(self.file.as_fd())).map_err(PmdkError::errno("fsync", &self.path))
    }
}

impl Drop for LockedPart {
    /// Unlocks. Closing the file alone may not unlock at once: a process that another thread is just starting has
    /// descriptors of all our files until it runs its own program. The child of a fork unlocks nothing.
    fn drop(&mut self) {
        if self.locked_by == process::id() {
            // If this fails, closing the file unlocks it.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// Reads `N` bytes at an offset of a file or device-DAX node, as far as there are so many; the rest are zeros.
pub(crate) fn read_at<const N: usize>(file: &File, path: &Path, off: u64) -> Result<[u8; N], PmdkError> {
    let mut bytes = [0; N];
    if is_device(file, path)? {
        let file = file.try_clone().map_err(PmdkError::io("dup", path))?;
        let view = Mapping::options().private_view().map_file(file, path)?;
        let read = view.memory().reading(|memory| memory.read(PoolOffset::new(off), &mut bytes));
        read.map_err(PmdkError::memory(path))?;
        return Ok(bytes);
    }
    let mut done = 0;
    while done < N {
        match file.read_at(&mut bytes[done..], off + done as u64).map_err(PmdkError::io("read", path))? {
            0 => break,
            count => done += count,
        }
    }
    Ok(bytes)
}

fn is_device(file: &File, path: &Path) -> Result<bool, PmdkError> {
    let metadata = file.metadata().map_err(PmdkError::io("fstat", path))?;
    Ok(metadata.file_type().is_char_device())
}
