//! Waits for changes of a directory.

use super::paths::STATE;
use crate::file::error::FileError;
use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
use rustix::io::{Errno, read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Bytes of notices that are read at a time: room for several of the longest.
const BUFFER: usize = 4096;

/// A watch of a directory, which another process may change. Its descriptor can be read after a change.
///
/// A change gives files their names, which are notices. A watch that is made before the directory is read misses no
/// change after it, as long as each read of the directory comes after [`clear`](Watch::clear).
#[derive(Debug)]
pub struct Watch {
    notices: OwnedFd,
    root: PathBuf,
}

impl Watch {
    /// Starts to watch the directory of a machine.
    ///
    /// # Errors
    /// Fails if there is no such directory, or if a system call fails.
    pub fn new(root: &Path) -> Result<Watch, FileError> {
        let failed =
            |errno: Errno| FileError { what: "watching", path: root.join(STATE), error: errno.into() };
        let notices = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(failed)?;
        let watch = Watch { notices, root: root.to_owned() };
        watch.add().map_err(failed)?;
        Ok(watch)
    }

    /// Watches the directory to which the path leads now.
    fn add(&self) -> Result<(), Errno> {
        let moves = WatchFlags::MOVED_TO | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        add_watch(&self.notices, &self.root, moves | WatchFlags::ONLYDIR).map(drop)
    }

    /// Takes the notices of changes up to now. A lost notice is a notice, too: the kernel says when it had no room. If another
    /// directory took the place of the one that was watched, it is watched from now on.
    ///
    /// # Errors
    /// Fails if there is no such directory any more, or if a system call fails.
    pub fn clear(&self) -> Result<(), FileError> {
        let failed =
            |errno: Errno| FileError { what: "watching", path: self.root.clone(), error: errno.into() };
        self.add().map_err(failed)?;
        let mut buffer = [0; BUFFER];
        loop {
            match read(&self.notices, &mut buffer) {
                Ok(1..) | Err(Errno::INTR) => {}
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notices.as_fd()
    }
}
