//! Shrinking a whole pool.

use crate::layout::Layout;
use crate::moves::{ShrinkError, ShrinkEvents};
use lode_heap::{Pool, Shrunk};
use lode_pmem::Mapping;
use lode_pool::OpenOptions;
use std::path::Path;

/// Shrinks the pool in the file `path`, which no one has open, to about what its objects take. If its layout is one of
/// `layouts`, objects that lie near the end are moved to free space below. Otherwise only what is free at the end is cut
/// off.
///
/// # Errors
/// [`ShrinkError`].
///
/// # Durability
/// As [`Pool::shrink`]: a crash at any moment leaves a pool with all its content, of the old or the new size.
///
/// # Cost
/// As [`Pool::shrink`]. Moving costs a log record for each object, and no space outside of the pool.
pub fn shrink_pool(
    path: &Path,
    options: &OpenOptions,
    layouts: &[&dyn Layout<Mapping>],
    events: &dyn ShrinkEvents,
) -> Result<Shrunk, ShrinkError> {
    Pool::shrink(path, options, |heap, name, limit| {
        let layout = layouts.iter().find(|layout| layout.name() == name.as_str());
        layout.map_or(Ok(()), |layout| layout.move_below(heap, limit, events))
    })
}
