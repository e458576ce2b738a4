//! The receiver of the objects of a pool's content during a check.

use lode_heap::check::{Finding, MarkResult, Report, Severity, SpaceMap};
use lode_layout::PoolOffset;
use lode_pmem::Memory;

/// Receives the objects of a layout during a check.
#[derive(Debug)]
pub struct Trace<'a> {
    memory: &'a Memory,
    map: &'a mut SpaceMap,
    report: &'a mut Report,
}

impl<'a> Trace<'a> {
    pub(crate) fn new(memory: &'a Memory, map: &'a mut SpaceMap, report: &'a mut Report) -> Trace<'a> {
        Trace { memory, map, report }
    }

    /// Marks the object at `at` as reached; `what` names it in a finding. Returns true if it is allocated and was not
    /// reached before.
    pub fn object(&mut self, what: &'static str, at: PoolOffset) -> bool {
        self.object_on(what, at, || None)
    }

    /// Marks an object as [`object`](Trace::object) does. A finding has the way from the root to it.
    pub(crate) fn object_on(
        &mut self,
        what: &'static str,
        at: PoolOffset,
        path: impl FnOnce() -> Option<String>,
    ) -> bool {
        self.report.counts.reached += 1;
        let map = &mut *self.map;
        let means = match self.memory.reading(|memory| map.mark(memory, at)) {
            Ok(MarkResult::Marked) => return true,
            Ok(MarkResult::AlreadyMarked) => "two references lead to it",
            Err(_) | Ok(MarkResult::Unallocated | MarkResult::NoObject) => {
                "it is not allocated, so it may be overwritten"
            }
        };
        self.report.add(Finding { path: path(), ..Finding::damage(what, at, means) });
        false
    }

    /// Returns the usable size and the type number of the object that begins at `at`, allocated or not.
    pub fn object_info(&self, at: PoolOffset) -> Option<(u64, u64)> {
        self.map.object(at)
    }

    /// Reports damage of the content.
    pub fn damage(&mut self, what: &'static str, at: PoolOffset, means: &'static str) {
        self.report.add(Finding::damage(what, at, means));
    }

    /// Reports damage of the content, with the way from the root to it, or the tree in which it is.
    pub fn damage_on(&mut self, what: &'static str, at: PoolOffset, means: &'static str, path: String) {
        self.report.add(Finding { path: Some(path), ..Finding::damage(what, at, means) });
    }

    /// Reports a state that is no damage.
    pub(crate) fn note(&mut self, what: &'static str, at: PoolOffset, means: &'static str) {
        self.report.add(Finding { severity: Severity::Note, ..Finding::damage(what, at, means) });
    }

    /// Notes the number of keys that the content has.
    pub fn keys(&mut self, count: u64) {
        self.report.counts.keys = count;
    }
}
