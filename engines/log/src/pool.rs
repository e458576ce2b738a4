//! The log of a pool in a file or on a device.

use crate::append_log::AppendLog;
use crate::error::AppendLogError;
use crate::open::LogRecovery;
use lode_layout::{LayoutName, LogDescriptor};
use lode_pmem::{Mapping, Medium, PmemError};
use lode_pool::{Access, CreateOptions, OpenOptions, PoolError, PoolFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open pool of layout `log`. The log stores through `M`: the mapping, or a medium around it, such as
/// [`Counted`](lode_pmem::Counted).
///
/// Dropping it instead of [`close`](LogPool::close) is no damage: a crash does the same.
#[derive(Debug)]
pub struct LogPool<M: Medium = Arc<Mapping>> {
    // In this order: the log is dropped before the lock on the file.
    log: AppendLog<M>,
    file: PoolFile,
    recovery: LogRecovery,
}

/// The reason why a pool with a log could not be made, opened or closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogPoolError {
    /// An error of its file or its headers.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The file can't be mapped. The message names the path.
    #[error(transparent)]
    Medium(#[from] PmemError),
    /// An error of its log.
    #[error("{}: {error}", path.display())]
    Log {
        /// The file or device.
        path: PathBuf,
        /// The error of the log.
        #[source]
        error: AppendLogError,
    },
    /// The pool has content of another layout.
    #[error("{}: the layout of the pool is {layout}, not {}; open it with the program that made it", path.display(), LogDescriptor::LAYOUT)]
    Layout {
        /// The file or device.
        path: PathBuf,
        /// The layout of the pool.
        layout: LayoutName,
    },
    /// The kernel gave no random bytes, which every epoch of a log needs.
    #[error("getrandom: {}", std::io::Error::from_raw_os_error(*errno))]
    Random {
        /// The error number.
        errno: i32,
    },
}

impl LogPool {
    /// Returns the name of the layout.
    pub fn layout() -> LayoutName {
        LayoutName::new(LogDescriptor::LAYOUT).expect("the name is valid")
    }

    /// Makes a pool at `path` with an empty log, and opens it. Its layout is that
    /// of logs, whatever `options` say, and the pool does not grow by itself.
    ///
    /// # Errors
    /// [`LogPoolError`]. No file is left then, and no pool on the device.
    ///
    /// # Durability
    /// The pool and its name are durable on return. A crash before that leaves no pool or a whole one.
    pub fn create(path: &Path, options: &CreateOptions) -> Result<LogPool, LogPoolError> {
        let (key, log_epoch) = (random_log_epoch()?, random_log_epoch()?);
        let options = CreateOptions { size_max: None, layout: LogPool::layout(), ..options.clone() };
        let file = PoolFile::create(path, &options, |mapping, header| {
            let uuid = header.uuid.as_bytes();
            AppendLog::format(&mapping, &header.geometry, uuid, key, log_epoch).map_err(error_of(path))
        })?;
        LogPool::over(file, |mapping| mapping)
    }

    /// Opens the pool at `path`. If it is opened for reading, the changes of the last writer are seen in a private view.
    /// Nothing reaches the file then.
    ///
    /// # Errors
    /// [`LogPoolError`].
    ///
    /// # Durability
    /// See [`AppendLog::open`].
    ///
    /// # Cost
    /// See [`AppendLog::open`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<LogPool, LogPoolError> {
        LogPool::open_through(path, options, |mapping| mapping)
    }
}

impl<M: Medium> LogPool<M> {
    /// Opens a pool as [`open`](LogPool::open) does; the log stores through the medium that `wrap` makes of the mapping.
    ///
    /// # Errors
    /// [`LogPoolError`].
    pub fn open_through(
        path: &Path,
        options: &OpenOptions,
        wrap: impl FnOnce(Arc<Mapping>) -> M,
    ) -> Result<LogPool<M>, LogPoolError> {
        LogPool::over(PoolFile::open(path, options)?, wrap)
    }

    fn over(file: PoolFile, wrap: impl FnOnce(Arc<Mapping>) -> M) -> Result<LogPool<M>, LogPoolError> {
        let header = file.header();
        if header.layout.as_str() != LogDescriptor::LAYOUT {
            return Err(LogPoolError::Layout { path: file.path().to_owned(), layout: header.layout });
        }
        let medium = wrap(Arc::clone(file.medium()));
        let opened = AppendLog::open(medium, &header.geometry, header.uuid.into_bytes(), random_log_epoch()?);
        let (log, recovery) = opened.map_err(error_of(file.path()))?;
        Ok(LogPool { log, file, recovery })
    }

    /// Returns the log.
    pub fn log(&self) -> &AppendLog<M> {
        &self.log
    }

    /// Returns the file, for operations on the headers alone.
    pub fn file(&self) -> &PoolFile {
        &self.file
    }

    /// Returns the result of the recovery at opening.
    pub fn recovery(&self) -> LogRecovery {
        self.recovery
    }

    /// Closes the pool: all appends are durable, and the next opening has nothing to look for.
    ///
    /// # Errors
    /// [`LogPoolError::Log`] if a sync failed, now or before; the errors of [`PoolFile::close`].
    pub fn close(self) -> Result<(), LogPoolError> {
        let LogPool { log, file, .. } = self;
        if file.access() == Access::ReadWrite {
            log.close().map_err(error_of(file.path()))?;
        }
        Ok(file.close()?)
    }
}

impl LogPoolError {
    /// Returns true if the pool is damaged.
    pub fn is_damage(&self) -> bool {
        match self {
            LogPoolError::Log { error, .. } => {
                matches!(error, AppendLogError::Damaged(_) | AppendLogError::Memory(_))
            }
            LogPoolError::Pool(error) => match error.cause() {
                PoolError::Headers { .. } => !error.has_no_pool(),
                error => matches!(error, PoolError::Truncated { .. }),
            },
            _ => false,
        }
    }
}

/// Returns a function that adds the path to an error of the log.
pub(crate) fn error_of(path: &Path) -> impl FnOnce(AppendLogError) -> LogPoolError {
    move |error| LogPoolError::Log { path: path.to_owned(), error }
}

/// Returns a number that no other epoch of any log has.
fn random_log_epoch() -> Result<[u64; 2], LogPoolError> {
    lode_redo::random_log_epoch().map_err(|errno| LogPoolError::Random { errno: errno.raw_os_error() })
}
