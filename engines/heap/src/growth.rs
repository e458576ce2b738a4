//! Growth of the pool under a heap, for a transaction that finds no space.
//!
//! The heap knows no file. The owner of its pool registers a [`Growth`], and the allocator calls it after all that
//! could be reclaimed was reclaimed. [`install`] is the heap's part of a growth:
//!
//! ```text
//!   the pool: file longer -> new tables and new log area zeroed, drained
//!   install:  if the log moves: no commits, log empty -> publish: header copy A, drain, copy B, drain
//!             -> log at its new place -> the allocator knows the new space
//! ```

use crate::alloc::space::Space;
use crate::error::GrowthRefusal;
use lode_layout::Geometry;
use lode_pmem::Medium;
use lode_pool::{Grower, PoolError, Publish};
use lode_redo::{Log, LogArea, LogError, bugs};
use rustix::io::Errno;
use std::fmt;

/// Makes the pool under a heap larger.
pub trait Growth: fmt::Debug + Send + Sync {
    /// Makes the pool larger for `wanted` bytes, and calls `install` in the course of it.
    ///
    /// # Errors
    /// [`GrowthError`]. The pool has its old size then, and what `install` returned is passed on.
    fn grow(&self, wanted: u64, install: &mut Install<'_>) -> Result<(), GrowthError>;
}

/// The heap's part of a growth: an argument of [`Headers::grow_to`](lode_pool::Headers::grow_to).
pub type Install<'a> = dyn FnMut(&Geometry, &mut Publish<'_>) -> Result<(), GrowthError> + 'a;

/// The reason why a pool did not grow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrowthError {
    /// An error of its file or its headers.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// An error of its log, which had to move.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The growth of a pool in a file.
#[derive(Debug)]
pub(crate) struct FileGrowth(pub(crate) Grower);

impl Growth for FileGrowth {
    fn grow(&self, wanted: u64, install: &mut Install<'_>) -> Result<(), GrowthError> {
        self.0.grow_for(wanted, install)
    }
}

/// Uses the new geometry in `log` and `space`. `publish` makes the header name it.
pub(crate) fn install<M: Medium>(
    log: &Log<M>,
    space: &Space,
    geometry: &Geometry,
    publish: &mut Publish<'_>,
) -> Result<(), GrowthError> {
    if bugs::SPACE_BEFORE_HEADER.is_active() {
        space.extend(geometry);
    }
    let area = LogArea::of(geometry);
    if area.start == log.start() {
        publish()?;
    } else {
        log.relocate(area, || publish().map_err(GrowthError::from))?;
    }
    // ORDER: both copies of the header name the space before a record does. Stop here: the space is free.
    space.extend(geometry);
    Ok(())
}

/// Returns why a pool that did not grow can't; `None` if it does not grow by itself at all.
pub(crate) fn refusal(error: &PoolError) -> Option<GrowthRefusal> {
    let errno = |op, errno| match Errno::from_raw_os_error(errno) {
        Errno::NOSPC | Errno::DQUOT => GrowthRefusal::DiskFull { op },
        _ => GrowthRefusal::Io { op, errno },
    };
    match *error.cause() {
        PoolError::FixedSize => None,
        PoolError::Maximum { size_max } => Some(GrowthRefusal::Maximum { size_max }),
        PoolError::AddressSpace { reserved } => Some(GrowthRefusal::AddressSpace { reserved }),
        PoolError::Io { op, errno: number } => Some(errno(op, number)),
        PoolError::Drain { error } => Some(errno("drain", error.errno)),
        _ => Some(GrowthRefusal::Headers),
    }
}
