//! One writer, or any number of readers.
//!
//! The lock is that of flock(2). It belongs to the open file, so two handles in one process exclude each
//! other as well (the locks of fcntl(2) that belong to a process do not, and closing any other descriptor of
//! the file drops them). It works on device nodes and through read-only descriptors, the kernel drops it when
//! the process ends in any way, and /proc/locks names the process that took it, which it does not for the
//! locks of fcntl(2) that belong to open files.

use crate::{Holder, PoolError};
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::Errno;
use std::fs::File;
use std::process;

/// What a handle may do with a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Change it. Excludes every other handle.
    ReadWrite,
    /// Read it. Excludes writers. What recovery has to write stays in a private view.
    ReadOnly,
}

/// An open file, with the lock on it.
#[derive(Debug)]
pub(crate) struct LockedFile {
    file: File,
    locker: u32,
}

impl LockedFile {
    /// Takes the lock, or says who is in the way. Does not wait.
    ///
    /// # Errors
    /// [`PoolError::InUse`] and [`PoolError::Io`].
    pub(crate) fn lock(file: File, access: Access) -> Result<LockedFile, PoolError> {
        let operation = match access {
            Access::ReadWrite => FlockOperation::NonBlockingLockExclusive,
            Access::ReadOnly => FlockOperation::NonBlockingLockShared,
        };
        match flock(&file, operation) {
            Ok(()) => Ok(LockedFile { file, locker: process::id() }),
            Err(Errno::WOULDBLOCK) => {
                let holder = fstat(&file).ok().and_then(|stat| Holder::find(stat.st_dev, stat.st_ino));
                Err(PoolError::InUse { holder })
            }
            Err(errno) => Err(PoolError::io("lock", errno)),
        }
    }

    /// The file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The process that took the lock.
    pub(crate) fn locker(&self) -> u32 {
        self.locker
    }

    /// Leaves the lock to the other descriptors of the open file: it lasts as long as any of them.
    pub(crate) fn leave_to_others(&mut self) {
        self.locker = 0;
    }
}

impl Drop for LockedFile {
    /// Unlocks, which closing alone does not do at once: a process that another thread is just starting has
    /// descriptors of all our files until it runs its own program. The child of a fork unlocks nothing.
    fn drop(&mut self) {
        if self.locker == process::id() {
            // If this fails, closing the file is what unlocks.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}
