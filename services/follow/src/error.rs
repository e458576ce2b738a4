//! Errors of followers and of the server.

use crate::message::FailureKind;
use lode_heap::OpenError;
use lode_layout::LayoutName;
use lode_pool::PoolError;
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why a pool in use can't be read, or why it is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// No process serves the pool, and it can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A system call failed.
    #[error("{}: {op}: {}", path.display(), io::Error::from_raw_os_error(*errno))]
    Io {
        /// The system call.
        op: &'static str,
        /// The pool or the socket.
        path: PathBuf,
        /// The error number.
        errno: i32,
    },
    /// There is something else at the path of the socket.
    #[error("{}: is no socket, so the pool is not served to other processes; move it away", path.display())]
    Occupied {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The socket can't have a name.
    #[error("{}: its name is too long for a socket beside it, so the pool is not served; choose a shorter one", path.display())]
    NameTooLong {
        /// Path of the pool.
        path: PathBuf,
    },
    /// The pool is open for reading, as other processes can open it themselves.
    #[error("{}: is open for reading only, so other processes open it themselves", path.display())]
    ReadOnly {
        /// Path of the pool.
        path: PathBuf,
    },
    /// The socket is one of a user who could not have replaced the pool.
    #[error(
        "{}: the socket is one of user {uid}, who owns neither the pool nor its folder; remove the socket",
        path.display()
    )]
    Untrusted {
        /// Path of the socket.
        path: PathBuf,
        /// Number of the user.
        uid: u32,
    },
    /// The other side is of a release with another protocol.
    #[error("{}: the process that has it open is of another release; use the same release", path.display())]
    Version {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The server answered with something else than an answer.
    #[error("{}: the process that has the pool open answers in an unknown way; use the same release", path.display())]
    Protocol {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The connection has ended, and its snapshot with it.
    #[error(
        "{}: the process that had it open has closed it, ended, or does not answer ({cause}); open a new snapshot",
        path.display()
    )]
    Lost {
        /// Path of the socket.
        path: PathBuf,
        /// The reason.
        cause: io::Error,
    },
    /// The process that has the pool open could not do what was asked for.
    #[error("{}: {message}", path.display())]
    Failed {
        /// Path of the pool.
        path: PathBuf,
        /// The kind of failure.
        kind: FailureKind,
        /// The message of that process.
        message: String,
    },
}

impl FollowError {
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(Errno) -> FollowError {
        move |errno| FollowError::Io { op, path: path.to_owned(), errno: errno.raw_os_error() }
    }

    pub(crate) fn std(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FollowError {
        move |error| FollowError::io(op, path)(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    pub(crate) fn layout(path: &Path, want: LayoutName, found: LayoutName) -> FollowError {
        let error = PoolError::Layout { want: Box::new(want), found: Box::new(found) };
        FollowError::Open(OpenError::Pool(error.at(path)))
    }

    /// Returns true for damage: something on the medium is not as it was written, or can't be read.
    pub fn is_damage(&self) -> bool {
        match self {
            FollowError::Open(error) => error.is_damage(),
            FollowError::Failed { kind, .. } => *kind == FailureKind::Damage,
            _ => false,
        }
    }

    /// Returns true if the server has refused this process, because it may not read the pool.
    pub fn is_unproven(&self) -> bool {
        matches!(self, FollowError::Failed { kind: FailureKind::NoProof, .. })
    }

    /// Returns true if the snapshot has ended: at a limit of the process that has the pool open, or with that process.
    pub fn is_snapshot_ended(&self) -> bool {
        match self {
            FollowError::Failed { kind, .. } => *kind == FailureKind::SnapshotEnded,
            FollowError::Lost { .. } => true,
            _ => false,
        }
    }
}
