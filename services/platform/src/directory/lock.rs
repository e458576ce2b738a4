//! Lock of a directory.

use super::error::DirectoryError;
use crate::file::error::FileError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Access mode of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reads. Other commands may read at the same time.
    ReadOnly,
    /// Changes the directory. No other command may use it.
    Change,
}

/// Takes the lock of the directory, or returns an error if another command has it.
pub(super) fn take(lock: &File, purpose: Purpose, root: &Path) -> Result<(), DirectoryError> {
    let operation = match purpose {
        Purpose::ReadOnly => FlockOperation::NonBlockingLockShared,
        Purpose::Change => FlockOperation::NonBlockingLockExclusive,
    };
    flock(lock, operation).map_err(|errno| match errno {
        Errno::WOULDBLOCK => DirectoryError::InUse { path: root.to_owned() },
        errno => FileError { what: "locking", path: root.to_owned(), error: errno.into() }.into(),
    })
}
