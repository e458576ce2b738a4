//! Lock of a directory.

use super::error::DirectoryError;
use crate::file::error::FileError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Access mode of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reads. Other commands may read at the same time.
    ReadOnly,
    /// Changes the directory. No other command may use it.
    Change,
}

/// Time between two attempts to take a lock.
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the lock of the directory. Waits for other commands up to `wait`.
///
/// A lock that is already held is given up before the other kind is taken, so another command may run in between.
///
/// # Errors
/// [`DirectoryError::InUse`] if other commands have the lock for so long. Fails if a system call fails.
pub(super) fn take(lock: &File, purpose: Purpose, root: &Path, wait: Duration) -> Result<(), DirectoryError> {
    let operation = match purpose {
        Purpose::ReadOnly => FlockOperation::NonBlockingLockShared,
        Purpose::Change => FlockOperation::NonBlockingLockExclusive,
    };
    let start = Instant::now();
    // A blocking flock has no time limit.
    loop {
        match flock(lock, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) if start.elapsed() < wait => {
                thread::sleep(PAUSE.min(wait.saturating_sub(start.elapsed())));
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(DirectoryError::InUse { path: root.to_owned(), waited: wait });
            }
            Err(errno) => {
                let path = root.to_owned();
                return Err(FileError { what: "locking", path, error: errno.into() }.into());
            }
        }
    }
}
