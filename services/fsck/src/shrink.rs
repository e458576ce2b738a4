//! Shrinking a whole pool.

use crate::check::{check_pool, layout_of};
use crate::layout::Layout;
use crate::moves::{ShrinkError, ShrinkEvents};
use lode_heap::{OpenError, Pool, Shrunk};
use lode_pmem::Mapping;
use lode_pool::{Access, Headers, OpenOptions, map_unchecked};
use std::path::Path;
use std::sync::Arc;

/// Shrinks the closed pool in the file `path` to about what its objects take. Its layout is one of
/// `layouts` that [can move](Layout::can_evacuate) its objects. The pool is checked first, since moved objects overwrite
/// free space, in which a repair would look for what is lost.
///
/// # Errors
/// [`ShrinkError`]. The pool has all its content then, and its old or its new size.
///
/// # Durability
/// As [`Pool::shrink`]: a crash at any moment leaves a pool with all its content, of the old or the new size.
///
/// # Cost
/// Those of [`check_pool`] and of [`Pool::shrink`]. Moving costs a log record for each object, and no space outside of the
/// pool.
pub fn shrink_pool(
    path: &Path,
    options: &OpenOptions,
    layouts: &[&dyn Layout<Mapping>],
    events: &dyn ShrinkEvents,
) -> Result<Shrunk, ShrinkError> {
    check_undamaged(path, options, layouts)?;
    Pool::shrink(path, options, |name| {
        let layout = layouts.iter().find(|layout| layout.name() == name.as_str() && layout.can_evacuate());
        let unmovable = || ShrinkError::Unmovable { layout: name.as_str().to_owned() };
        let layout = layout.ok_or_else(unmovable)?;
        Ok(move |heap: &_| layout.evacuate(heap, events))
    })
}

/// Checks a pool of a known layout. Pools that can't be opened, or whose layout is unknown, pass: their errors follow.
fn check_undamaged(
    path: &Path,
    options: &OpenOptions,
    layouts: &[&dyn Layout<Mapping>],
) -> Result<(), ShrinkError> {
    // A device keeps its size, however sound its pool is.
    if !path.is_file() {
        return Ok(());
    }
    let options = OpenOptions { access: Access::ReadOnly, ..options.clone() };
    let view = map_unchecked(path, &options).map_err(OpenError::from)?;
    let Ok(headers) = Headers::read(&view) else { return Ok(()) };
    let is_refused = headers.dirty_shutdown(&view).is_some();
    if is_refused || layout_of(headers.current(), layouts).is_none() {
        return Ok(());
    }
    let report = check_pool(Arc::clone(view.medium()), layouts);
    let worst = report.findings.iter().max_by_key(|finding| finding.severity);
    match worst.filter(|_| report.is_damaged()) {
        Some(finding) => Err(ShrinkError::Damaged { finding: Box::new(finding.clone()) }),
        None => Ok(()),
    }
}
