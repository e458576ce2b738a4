//! Shrinking a whole pool.

use crate::layout::Layout;
use crate::moves::{ShrinkError, ShrinkEvents};
use lode_heap::{Pool, Shrunk};
use lode_pmem::Mapping;
use lode_pool::OpenOptions;
use std::path::Path;

/// Shrinks the pool in the file `path`, which no one has open, to about what its objects take. Its layout is one of
/// `layouts` that [can move](Layout::can_evacuate) its objects.
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
    Pool::shrink(path, options, |name| {
        let layout = layouts.iter().find(|layout| layout.name() == name.as_str() && layout.can_evacuate());
        let unmovable = || ShrinkError::Unmovable { layout: name.as_str().to_owned() };
        let layout = layout.ok_or_else(unmovable)?;
        Ok(move |heap: &_| layout.evacuate(heap, events))
    })
}
