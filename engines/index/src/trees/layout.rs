//! The table of trees as the content of a whole pool, for [`lode_fsck`].

use super::Trees;
use super::salvage::salvage;
use super::trace::trace_table;
use crate::error::IndexError;
use crate::layout::{evacuate_root_tree, stays_without_room};
use crate::map::TreeMaps;
use crate::tree::Tree;
use lode_fsck::{DamagedPool, Layout, Maps, Repair, RepairError, ShrinkError, ShrinkEvents, Trace};
use lode_heap::Heap;
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use std::sync::Arc;

/// Keys of dropped trees that are deleted in one transaction before a pool shrinks.
const RECLAIM_KEYS: usize = 1 << 10;

/// The layout `store`: its root object is that of a table of trees.
#[derive(Clone, Copy, Debug)]
pub struct StoreLayout;

impl StoreLayout {
    /// The name of the layout.
    pub const NAME: &'static str = "store";
}

impl<M: Medium> Layout<M> for StoreLayout {
    fn name(&self) -> &str {
        StoreLayout::NAME
    }

    fn trace(&self, heap: &Heap<Arc<M>>, root: PoolOffset, trace: &mut Trace<'_>) -> bool {
        if root.is_null() {
            return true;
        }
        trace_table(heap, root, trace)
    }

    fn maps(&self) -> Option<&dyn Maps<M>> {
        Some(&TreeMaps)
    }

    fn salvage(&self, damaged: &DamagedPool<'_, M>, repair: &mut Repair) -> Result<(), RepairError> {
        salvage(damaged, repair)
    }

    fn can_evacuate(&self) -> bool {
        true
    }

    fn evacuate(&self, heap: &Heap<Arc<M>>, events: &dyn ShrinkEvents) -> Result<(), ShrinkError> {
        let root = heap.root().map_err(IndexError::from)?;
        if root.is_null() {
            return Ok(());
        }
        let trees = Trees::open(heap, root)?;
        while trees.reclaim(RECLAIM_KEYS)? {
            if events.is_stopped() {
                return Err(ShrinkError::Stopped);
            }
        }
        let names = heap.run(|tx| trees.names_in(tx))?;
        for name in names {
            let Some(found) = trees.get(&name)? else { continue };
            Tree::open(heap, found.root)?.evacuate(events)?;
            stays_without_room(trees.move_root(&name))?;
        }
        evacuate_root_tree(&trees.table, events)
    }
}
