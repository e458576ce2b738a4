//! A log pool of PMDK in a file.

use crate::pmdk::error::PmemLogError;
use crate::pmdk::log::PmemLog;
use lode_layout::{Durability, PmdkHeader, PmdkKind, PmdkLog};
use lode_pmem::{Mapping, NewFile, PmemError, allocate, file_size_limit};
use lode_pool::{Access, LockedFile, PoolError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// An open log pool of PMDK, with the lock that PMDK takes, too.
///
/// Dropping it instead of [`close`](PmemLogPool::close) is no damage: a crash does the same.
#[derive(Debug)]
pub struct PmemLogPool {
    // In this order: the log is dropped before the lock on the file.
    log: PmemLog<Arc<Mapping>>,
    _lock: LockedFile,
    path: PathBuf,
}

/// The reason why a log pool of PMDK could not be made, opened or closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmemLogPoolError {
    /// The file can't be opened, exists already, or another handle has it open.
    #[error(transparent)]
    File(#[from] PoolError),
    /// The file can't be mapped or made. The message names the path.
    #[error(transparent)]
    Medium(#[from] PmemError),
    /// The new file can't get its length.
    #[error("{}: can't make a file of {size} bytes: {error}; choose a smaller size, or free space", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The length in bytes.
        size: u64,
        /// The error of the system call.
        #[source]
        error: io::Error,
    },
    /// An error of its log.
    #[error("{}: {error}", path.display())]
    Log {
        /// The file or device.
        path: PathBuf,
        /// The error of the log.
        #[source]
        error: PmemLogError,
    },
}

impl PmemLogPool {
    /// Makes a pool of `size` bytes in a new file at `path`, and opens it. `None` uses the durability that the medium offers,
    /// which must then be durable.
    ///
    /// # Errors
    /// [`PmemLogPoolError`]. No file is left then.
    ///
    /// # Durability
    /// The pool and its name are durable on return. A crash before that leaves no file or a whole pool.
    ///
    /// # Cost
    /// Allocates the whole size.
    pub fn create(
        path: &Path,
        size: u64,
        durability: Option<Durability>,
    ) -> Result<PmemLogPool, PmemLogPoolError> {
        PmdkLog::plan(size).map_err(|error| PmemLogPoolError::log(path)(PmemLogError::Plan(error)))?;
        if path.symlink_metadata().is_ok() {
            return Err(at(path)(PoolError::Exists));
        }
        let new = NewFile::create(path)?;
        let refused = |error| PmemLogPoolError::Length { path: path.to_owned(), size, error };
        if file_size_limit().is_some_and(|limit| size > limit) {
            // The same error that the system call gives, without its signal.
            return Err(refused(io::ErrorKind::FileTooLarge.into()));
        }
        allocate(new.file(), 0, size).map_err(refused)?;
        // Locked before it has a name: no other process can lock it first.
        let file = new.file().try_clone().map_err(refused)?;
        let lock = LockedFile::lock(file, Access::ReadWrite).map_err(at(path))?;
        let medium = map(&lock, path, Access::ReadWrite, durability)?;
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let header = PmdkHeader::new(PmdkKind::Log, Uuid::new_v4(), Uuid::new_v4(), created);
        PmemLog::format(&medium, &header).map_err(PmemLogPoolError::log(path))?;
        let log = PmemLog::open(Arc::new(medium)).map_err(PmemLogPoolError::log(path))?;
        new.publish()?;
        Ok(PmemLogPool { log, _lock: lock, path: path.to_owned() })
    }

    /// Opens the pool at `path`. `durability` replaces the detected one.
    ///
    /// # Errors
    /// [`PmemLogPoolError`].
    ///
    /// # Durability
    /// See [`PmemLog::open`].
    ///
    /// # Cost
    /// See [`PmemLog::open`].
    pub fn open(
        path: &Path,
        access: Access,
        durability: Option<Durability>,
    ) -> Result<PmemLogPool, PmemLogPoolError> {
        let lock = LockedFile::open(path, access).map_err(at(path))?;
        let medium = map(&lock, path, access, durability)?;
        let log = PmemLog::open(Arc::new(medium)).map_err(PmemLogPoolError::log(path))?;
        Ok(PmemLogPool { log, _lock: lock, path: path.to_owned() })
    }

    /// Returns the log.
    pub fn log(&self) -> &PmemLog<Arc<Mapping>> {
        &self.log
    }

    /// Closes the pool: all appends are durable.
    ///
    /// # Errors
    /// [`PmemLogPoolError::Log`] if a sync failed, now or before.
    pub fn close(self) -> Result<(), PmemLogPoolError> {
        self.log.close().map_err(PmemLogPoolError::log(&self.path))
    }
}

impl PmemLogPoolError {
    /// Returns true if the pool is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, PmemLogPoolError::Log { error, .. } if error.is_damage())
    }

    pub(super) fn log(path: &Path) -> impl FnOnce(PmemLogError) -> PmemLogPoolError {
        move |error| PmemLogPoolError::Log { path: path.to_owned(), error }
    }
}

/// Returns a function that adds the path to an error of the file.
fn at(path: &Path) -> impl Fn(PoolError) -> PmemLogPoolError {
    move |error| PoolError::At { path: path.to_owned(), error: Box::new(error) }.into()
}

/// Maps a file that is locked.
fn map(
    lock: &LockedFile,
    path: &Path,
    access: Access,
    durability: Option<Durability>,
) -> Result<Mapping, PmemLogPoolError> {
    let options = match (access, durability) {
        (Access::ReadOnly, _) => Mapping::options().private_view(),
        (Access::ReadWrite, Some(durability)) => Mapping::options().durability(durability),
        (Access::ReadWrite, None) => Mapping::options(),
    };
    let errno = |error: io::Error| error.raw_os_error().unwrap_or_default();
    let file = lock
        .file()
        .try_clone()
        .map_err(|error| at(path)(PoolError::Io { op: "dup", errno: errno(error) }))?;
    Ok(options.map_file(file, path)?)
}
