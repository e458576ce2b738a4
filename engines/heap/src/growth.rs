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
use lode_layout::{Geometry, GeometryError};
use lode_pmem::Medium;
use lode_pool::{Grower, PoolError, Publish, SpaceLimit};
use lode_redo::{Log, LogArea, LogError, bugs};
use std::fmt;

/// Makes the pool under a heap larger.
pub trait Growth: fmt::Debug + Send + Sync {
    /// Makes the pool larger for what is wanted, and calls `install` in the course of it. Does not grow the pool if
    /// even its largest geometry has no room for that.
    ///
    /// # Errors
    /// [`GrowthError`]. The pool has its old size then, and what `install` returned is passed on.
    fn grow(&self, wanted: &Wanted<'_>, install: &mut Install<'_>) -> Result<(), GrowthError>;
}

/// The space that a transaction lacks.
pub struct Wanted<'a> {
    /// An estimate in bytes.
    pub bytes: u64,
    /// Returns true if the pool has the space once it has this geometry.
    pub fits: &'a dyn Fn(&Geometry) -> bool,
}

impl fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted").field("bytes", &self.bytes).finish_non_exhaustive()
    }
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
    fn grow(&self, wanted: &Wanted<'_>, install: &mut Install<'_>) -> Result<(), GrowthError> {
        self.0.grow_for(wanted.bytes, wanted.fits, install)
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
    let refusal = match *error.cause() {
        PoolError::FixedSize => return None,
        PoolError::Maximum { size_max } => GrowthRefusal::Maximum { size_max },
        PoolError::NoSpace { size, limit: SpaceLimit::Disk } => GrowthRefusal::DiskFull { size },
        PoolError::NoSpace { size, limit: SpaceLimit::Quota } => GrowthRefusal::Quota { size },
        PoolError::NoSpace { size, .. } => GrowthRefusal::FileSize { size },
        PoolError::AddressSpace { reserved, .. } => GrowthRefusal::AddressSpace { reserved },
        PoolError::Geometry(GeometryError::ExtentsExhausted { size_max, .. }) => {
            GrowthRefusal::Extents { size_max }
        }
        PoolError::Drain { .. } | PoolError::Poisoned | PoolError::Io { op: "fsync", .. } => {
            GrowthRefusal::SyncFailed
        }
        PoolError::ReadOnly => GrowthRefusal::Closed,
        PoolError::Io { op, errno } => GrowthRefusal::Io { op, errno },
        _ => GrowthRefusal::Headers,
    };
    Some(refusal)
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_pmem::SyncError;
    use std::path::Path;

    /// Each reason has a message of its own, which says what to do.
    #[test]
    fn refusals_are_told_apart() {
        let no_space = |limit| PoolError::NoSpace { size: 1 << 20, limit };
        let exhausted = GeometryError::ExtentsExhausted { size: 2 << 20, size_max: 1 << 20 };
        let cases = [
            (PoolError::Maximum { size_max: 5 }, "raise this maximum"),
            (no_space(SpaceLimit::Disk), "the disk is full"),
            (no_space(SpaceLimit::Quota), "ask for a greater quota"),
            (no_space(SpaceLimit::FileSize), "`ulimit -f`"),
            (PoolError::AddressSpace { reserved: 5, size: 6 }, "open it again, for a greater size"),
            (PoolError::Geometry(exhausted), "copy its content to a new pool"),
            (PoolError::Drain { error: SyncError { errno: 5 } }, "a sync failed"),
            (PoolError::Poisoned, "a sync failed"),
            (PoolError::Io { op: "fsync", errno: 28 }, "a sync failed"),
            (PoolError::Io { op: "mmap", errno: 12 }, "mmap: Cannot allocate memory"),
            (PoolError::ReadOnly, "closed"),
            (PoolError::GenerationsExhausted, "header can't be changed"),
        ];
        for (error, part) in cases {
            let refusal = refusal(&error.at(Path::new("pool"))).expect("a refusal").to_string();
            assert!(refusal.contains(part), "{refusal}");
        }
        assert_eq!(refusal(&PoolError::FixedSize), None);
    }
}
