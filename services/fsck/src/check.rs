//! Checking a whole pool: headers, slots, log, heap, and, if the layout is registered, every object.
//!
//! ```text
//!   headers -> slots -> log -> replayed into the view -> tables, headers, bitmaps -> objects of the layout -> leaks
//! ```
//!
//! Each step needs what the one before it found: without a header nothing is known of the pool, without a slot
//! nothing of its log. So a check reports what it could not examine.

use crate::layout::Layout;
use crate::maps::Maps;
use crate::trace::Trace;
use crate::typed::trace_typed;
use lode_heap::check::{Finding, Report, SpaceMap, check_log, check_slots};
use lode_heap::{Heap, HeapError};
use lode_layout::{Geometry, Header, PoolOffset};
use lode_pmem::Medium;
use lode_pool::{Damage, DirtyShutdown, HeaderCopyError, Headers, PoolError, check_headers};
use std::sync::Arc;

/// Checks the pool in `view`, in whatever state it is. The view must be private, like one that
/// `lode_pool::map_unchecked` maps for reading. A log that was not closed is replayed into the view, which does not
/// change the pool. If the pool's layout is one of `layouts`, or if it holds typed data, its objects are checked, and leaks
/// are looked for. Typed data with maps wants a layout that knows [maps](Layout::maps).
///
/// # Cost
/// Reads the log, all tables and bitmaps and, if the layout is registered, every object.
pub fn check_pool<M: Medium>(view: Arc<M>, layouts: &[&dyn Layout<M>]) -> Report {
    let mut report = Report::default();
    for damage in check_headers(&*view) {
        report.add(header_finding(&damage));
    }
    let header = match Headers::read(&*view) {
        Ok(headers) => *headers.current(),
        Err(error) => {
            if report.is_clean() {
                report.add(header_error_finding(&error));
            }
            return report;
        }
    };
    let (uuid, geometry) = (*header.uuid.as_bytes(), header.geometry);
    if let Some(slot) = check_slots(&*view, &uuid, &mut report) {
        check_log(&*view, &geometry, &uuid, &slot, &mut report);
    }
    match Heap::salvage(view, &geometry, uuid, [0; 2]) {
        Ok((heap, _)) => check_content(&heap, &header, layouts, &geometry, &mut report),
        Err(error) => report.add(heap_error_finding(&error)),
    }
    report
}

/// Returns the layout whose name is in the header, if it is registered.
pub(crate) fn layout_of<'l, M: Medium>(
    header: &Header,
    layouts: &[&'l dyn Layout<M>],
) -> Option<&'l dyn Layout<M>> {
    layouts.iter().copied().find(|layout| layout.name() == header.layout.as_str())
}

/// Returns the registered part in checks and repairs of maps.
pub(crate) fn maps_of<'l, M: Medium>(layouts: &[&'l dyn Layout<M>]) -> Option<&'l dyn Maps<M>> {
    layouts.iter().find_map(|layout| layout.maps())
}

/// Checks the heap and its content after the log has been replayed.
pub(crate) fn check_content<M: Medium>(
    heap: &Heap<Arc<M>>,
    header: &Header,
    layouts: &[&dyn Layout<M>],
    geometry: &Geometry,
    report: &mut Report,
) {
    let mut map = SpaceMap::read(heap.memory(), geometry, report);
    // A damaged root word is in the report already.
    let Ok(root) = heap.root() else { return };
    let mut trace = Trace::new(heap.memory(), &mut map, report);
    let traced_all = match layout_of(header, layouts) {
        Some(layout) => root.is_null() || layout.trace(heap, root, &mut trace),
        None => trace_typed(heap, maps_of(layouts), &mut trace),
    };
    if traced_all {
        // Lost bitmaps are in the report already.
        let _ = heap.memory().reading(|memory| map.report_leaks(memory, report));
    }
}

fn heap_error_finding(error: &HeapError) -> Finding {
    match *error {
        HeapError::Corrupt { what, at } => Finding::damage(what, at, "the heap can't be opened"),
        HeapError::Fault(fault) => Finding::damage("the range", fault.at, "it can't be read"),
        _ => Finding::damage("the heap", PoolOffset::NULL, "it can't be opened"),
    }
}

fn header_finding(damage: &Damage) -> Finding {
    let null = PoolOffset::NULL;
    match *damage {
        Damage::Copy { copy, fault: HeaderCopyError::Unreadable(_) } => {
            Finding::damage("the copy of the header", copy.at(), "it can't be read; the other copy decides")
        }
        Damage::Copy { copy, .. } => Finding::damage(
            "the copy of the header",
            copy.at(),
            "it is damaged; the other copy decides, if it is whole",
        ),
        Damage::CopiesDiffer { .. } => {
            Finding::damage("the header", null, "its copies differ, and neither is newer")
        }
        Damage::TwoPools { .. } => Finding::damage("the header", null, "its copies belong to two pools"),
        Damage::Truncated { want, found } => Finding {
            found: Some(found),
            want: Some(want),
            ..Finding::damage("the length of the medium", null, "the pool is cut short, so it is not opened")
        },
        Damage::DirtyShutdown(DirtyShutdown { was, now }) => Finding {
            found: Some(now),
            want: Some(was),
            ..Finding::damage(
                "the count of dirty shutdowns",
                null,
                "the memory modules lost data while the pool was open, so it is not opened; what was stored then \
                 may be missing or old",
            )
        },
        _ => Finding::damage("the header", null, "the pool is not opened"),
    }
}

fn header_error_finding(error: &PoolError) -> Finding {
    let means = match error {
        PoolError::Incompatible { .. } => {
            "another version of this program wrote it, which knows how to read it"
        }
        _ => "the pool is not opened",
    };
    Finding::damage("the header", PoolOffset::NULL, means)
}
