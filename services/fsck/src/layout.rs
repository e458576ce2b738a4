//! A layout's part in checks and repairs: the objects of its content.

use crate::damaged_pool::DamagedPool;
use crate::maps::Maps;
use crate::moves::{ShrinkError, ShrinkEvents};
use crate::outcome::{Repair, RepairError};
use crate::trace::Trace;
use lode_heap::{Heap, HeapError};
use lode_layout::PoolOffset;
use lode_pmem::Medium;
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
