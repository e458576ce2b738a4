//! A layout's part in checks and repairs: the objects of its content.

use crate::damaged_pool::DamagedPool;
use crate::maps::Maps;
use crate::moves::{ShrinkError, ShrinkEvents};
use crate::outcome::{Repair, RepairError};
use lode_heap::check::{Finding, MarkResult, Report, Severity, SpaceMap};
use lode_heap::{Heap, HeapError};
use lode_layout::PoolOffset;
use lode_pmem::{Medium, Memory};
use std::sync::Arc;

/// The content of pools of one layout. A program that checks or repairs pools registers each layout that it knows.
pub trait Layout<M: Medium> {
    /// Returns the name that the headers of such pools have.
    fn name(&self) -> &str;

    /// Passes every object that `root` reaches, and every damage, to `trace`. Returns true if it passed on all of them.
    /// The caller then reports each other object as a leak.
    fn trace(&self, heap: &Heap<Arc<M>>, root: PoolOffset, trace: &mut Trace<'_>) -> bool;

    /// Returns its part in checks and repairs of maps in pools of typed data, whatever their layout; `None` if the layout knows none.
    fn maps(&self) -> Option<&dyn Maps<M>> {
        None
    }

    /// Returns true if the layout knows all references to its objects, so that it can move them. Other pools do not shrink.
    fn can_evacuate(&self) -> bool {
        false
    }

    /// Moves the objects in space that the heap [evacuates](Heap::is_evacuated), by transactions. Objects for which there is
    /// no room elsewhere stay where they are. No other handle has the pool open.
    ///
    /// # Errors
    /// [`ShrinkError`]; [`ShrinkError::Unmovable`] without [`can_evacuate`](Layout::can_evacuate).
    ///
    /// # Durability
    /// Each transaction is durable when the next one begins. Stopped anywhere, it can be run again.
    fn evacuate(&self, heap: &Heap<Arc<M>>, events: &dyn ShrinkEvents) -> Result<(), ShrinkError> {
        let _ = (heap, events);
        Err(ShrinkError::Unmovable { layout: self.name().to_owned() })
    }

    /// Makes the content sound, and records in `repair` what it changed and what is lost. The log is empty and the
    /// descriptors of spans are sound. A layout that can't salvage anything leaves the objects alone.
    ///
    /// # Errors
    /// [`RepairError`]. The repair can be run again.
    ///
    /// # Durability
    /// Each step is durable before the next one relies on it. Stopped anywhere, it can be run again.
    fn salvage(&self, damaged: &DamagedPool<'_, M>, repair: &mut Repair) -> Result<(), RepairError> {
        let _ = damaged;
        repair.unknown_layout = true;
        Ok(())
    }

    /// Corrects records about the content that damage or the losses in `repair` have made wrong.
    ///
    /// # Errors
    /// [`HeapError`]. The repair can be run again.
    fn finish_repair(&self, heap: &Heap<Arc<M>>, repair: &mut Repair) -> Result<(), HeapError> {
        let _ = (heap, repair);
        Ok(())
    }
}

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

    /// Reports damage of the content, with the way from the root to it.
    pub(crate) fn damage_on(
        &mut self,
        what: &'static str,
        at: PoolOffset,
        means: &'static str,
        path: String,
    ) {
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
