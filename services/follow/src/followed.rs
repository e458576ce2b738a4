//! A pool for reading, in use by another process or not.

use crate::connection::Connection;
use crate::error::FollowError;
use crate::message::{PoolInfo, PoolStats};
use lode_heap::{OpenError, Pool};
use lode_layout::LayoutName;
use lode_pool::{Access, OpenOptions, PoolError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The time that a writer may take from its lock on the pool until it serves it, its recovery included.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// A pool for reading: served by the process that has it open for writing, or opened by this process.
#[derive(Debug)]
pub enum Followed {
    /// A snapshot that the writer's process serves.
    Served(Connection),
    /// The pool, which no process has open for writing, or can open so until it is closed.
    Opened(Box<Pool>),
}

impl Followed {
    /// Connects to the process that serves the pool at `path`, or opens the pool for reading if no process has it open for
    /// writing. Waits up to 2 s for a writer that is just opening or closing it.
    ///
    /// # Errors
    /// [`FollowError`]: [`FollowError::Open`] with [`PoolError::InUse`] if the pool is in use and not served; with
    /// [`PoolError::Layout`] if it does not have the `layout`.
    pub fn open(path: &Path, layout: Option<LayoutName>) -> Result<Followed, FollowError> {
        let deadline = Instant::now() + PATIENCE;
        let options = OpenOptions { layout, ..OpenOptions::new(Access::ReadOnly) };
        loop {
            match Connection::open(path) {
                Ok(Some(connection)) => {
                    return match layout {
                        Some(want) if want != connection.layout() => {
                            Err(FollowError::layout(path, want, connection.layout()))
                        }
                        _ => Ok(Followed::Served(connection)),
                    };
                }
                Ok(None) => {}
                // The server has just stopped.
                Err(FollowError::Lost { .. }) if Instant::now() < deadline => {}
                // The error of opening the pool says more.
                Err(FollowError::Io { op: "realpath", .. }) => {}
                Err(error) => return Err(error),
            }
            match Pool::open(path, &options) {
                Ok(pool) => return Ok(Followed::Opened(Box::new(pool))),
                Err(error) if is_in_use(&error) && Instant::now() < deadline => thread::sleep(PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Followed {
    /// Returns the layout of the pool.
    pub fn layout(&self) -> LayoutName {
        match self {
            Followed::Served(connection) => connection.layout(),
            Followed::Opened(pool) => pool.layout(),
        }
    }

    /// Returns the properties of the pool.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn info(&self) -> Result<PoolInfo, FollowError> {
        match self {
            Followed::Served(connection) => connection.info(),
            Followed::Opened(pool) => Ok(PoolInfo::of(pool)),
        }
    }

    /// Returns the fill level of the pool.
    ///
    /// # Errors
    /// Those of [`Connection`]; [`FollowError::Open`] with the error of the heap.
    pub fn stats(&self) -> Result<PoolStats, FollowError> {
        match self {
            Followed::Served(connection) => connection.stats(),
            Followed::Opened(pool) => {
                let heap = pool.heap().stats();
                let heap = heap.map_err(|error| OpenError::Heap { path: pool.path().to_owned(), error })?;
                Ok(PoolStats::new(pool.header().geometry.size(), &heap))
            }
        }
    }
}

fn is_in_use(error: &OpenError) -> bool {
    matches!(error, OpenError::Pool(error) if matches!(error.cause(), PoolError::InUse { .. }))
}
