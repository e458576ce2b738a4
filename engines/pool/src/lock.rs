//! The lock on a pool: one writer, or any number of readers.
//!
//! The lock is that of flock(2). It belongs to the open file, so two handles in one process exclude each other as well.
//! The process-owned locks of fcntl(2) do not, and closing any other descriptor of the file drops them. The lock works
//! on device nodes and through read-only descriptors. The kernel drops it when the process ends in any way. /proc/locks
//! names the process that took it, which it does not do for the fcntl(2) locks of open files.

use crate::{LockHolder, PoolError};
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process;

/// The operations that a handle allows on a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Changing it. Excludes every other handle.
    ReadWrite,
    /// Reading it. Excludes writers. Recovery writes to a private view only.
    ReadOnly,
}

/// An open file, with the lock on it. PMDK takes the same lock on its pools, so its programs and ours exclude each other.
#[derive(Debug)]
pub struct LockedFile {
    file: File,
    locked_by: u32,
}

impl LockedFile {
    /// Opens a file or character device, and takes the lock for `access`.
    ///
    /// # Errors
    /// [`PoolError::NotAFile`], and as [`lock`](LockedFile::lock).
    pub fn open(path: &Path, access: Access) -> Result<LockedFile, PoolError> {
        // Checked before opening: the open of a pipe waits, and the open of some devices has side effects.
        let kind = fs::metadata(path).map_err(PoolError::std("stat"))?.file_type();
        if !kind.is_file() && !kind.is_char_device() {
            return Err(PoolError::NotAFile);
        }
        let write = access == Access::ReadWrite;
        let file = File::options().read(true).write(write).open(path).map_err(PoolError::std("open"))?;
        LockedFile::lock(file, access)
    }

    /// Takes the lock, or reports a process that holds it. Does not wait.
    ///
    /// # Errors
    /// [`PoolError::InUse`] and [`PoolError::Io`].
    pub fn lock(file: File, access: Access) -> Result<LockedFile, PoolError> {
        let operation = match access {
            Access::ReadWrite => FlockOperation::NonBlockingLockExclusive,
            Access::ReadOnly => FlockOperation::NonBlockingLockShared,
        };
        match flock(&file, operation) {
            Ok(()) => Ok(LockedFile { file, locked_by: process::id() }),
            Err(Errno::WOULDBLOCK) => {
                let holder = fstat(&file).ok().and_then(|stat| LockHolder::find(stat.st_dev, stat.st_ino));
                Err(PoolError::InUse { holder })
            }
            Err(errno) => Err(PoolError::io("lock", errno)),
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the number of the process that took the lock.
    pub(crate) fn locked_by(&self) -> u32 {
        self.locked_by
    }

    /// Leaves the lock to the other descriptors of the open file. The lock lasts as long as any of them.
    pub(crate) fn keep_locked(&mut self) {
        self.locked_by = 0;
    }
}

impl Drop for LockedFile {
    /// Unlocks. Closing the file alone may not unlock at once: a process that another thread is just starting has
    /// descriptors of all our files until it runs its own program. The child of a fork unlocks nothing.
    fn drop(&mut self) {
        if self.locked_by == process::id() {
            // If this fails, closing the file unlocks it.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}
