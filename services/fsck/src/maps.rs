//! The part of the crate of maps in checks and repairs of typed data, whose objects own maps, and beside which there may be named
//! trees. The table of trees, and each tree, have the structure of a map.

use crate::damaged_pool::DamagedPool;
use crate::outcome::{Repair, RepairError};
use crate::trace::Trace;
use lode_heap::check::SpaceMap;
use lode_heap::{Heap, VisitMap};
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use std::fmt;
use std::sync::Arc;

/// Visits and salvages maps.
pub trait Maps<M: Medium> {
    /// Returns the function that visits the parts of a map.
    fn visitor(&self) -> VisitMap<Arc<M>>;

    /// Marks all parts that a salvage of the maps with these root objects keeps. Corrects flipped bits of single entries, and changes
    /// nothing else. Returns the number of words that it stored, too.
    fn mark(&self, medium: &M, space: SpaceMap, roots: &[PoolOffset]) -> (SpaceMap, u64);

    /// Begins a salvage of the maps with these root objects: unlinks the parts that are not sound, durably on return.
    ///
    /// # Errors
    /// [`RepairError`]. The repair can be run again.
    fn unlink(
        &self,
        damaged: &DamagedPool<'_, M>,
        roots: &[PoolOffset],
        repair: &mut Repair,
    ) -> Result<Box<dyn UnlinkedMaps<M>>, RepairError>;

    /// Passes every object of the table of trees at `table`, and of its trees, and every damage, to `trace`. Returns true if it passed
    /// on all of them.
    fn trace_trees(&self, heap: &Heap<Arc<M>>, table: PoolOffset, trace: &mut Trace<'_>) -> bool;

    /// Returns the root objects of the table of trees at `table`, and of the trees to which its sound entries lead, but of none that
    /// `space` marks; none if no table is there.
    fn tree_roots(&self, medium: &M, space: &SpaceMap, table: PoolOffset) -> Vec<PoolOffset>;

    /// Makes the table of trees at `table` sound, or another one if it is lost. Trees whose names are lost get others. `space` marks
    /// what the typed data and its maps reach.
    ///
    /// # Errors
    /// [`RepairError`]. The repair can be run again.
    fn settle_table(
        &self,
        damaged: &DamagedPool<'_, M>,
        table: PoolOffset,
        space: SpaceMap,
        repair: &mut Repair,
    ) -> Result<(), RepairError>;

    /// Returns the names of the trees of the table at `table`, with their root objects.
    ///
    /// # Errors
    /// [`RepairError`].
    fn named_trees(
        &self,
        heap: &Heap<Arc<M>>,
        table: PoolOffset,
    ) -> Result<Vec<(String, PoolOffset)>, RepairError>;
}

/// Maps in the middle of a salvage.
pub trait UnlinkedMaps<M: Medium> {
    /// Inserts sound entries to which nothing leads into those of `maps` whose they are, by transactions. No key of another map is
    /// named as lost.
    ///
    /// # Errors
    /// [`RepairError`]. The repair can be run again.
    fn reinsert(
        &mut self,
        heap: &Heap<Arc<M>>,
        maps: &[DamagedMap<'_>],
        repair: &mut Repair,
    ) -> Result<(), RepairError>;

    /// Corrects the counts of the maps, durably on return, and records the keys that are lost. Entries to which nothing leads are freed
    /// by now.
    ///
    /// # Errors
    /// [`RepairError`]. The repair can be run again.
    fn finish(self: Box<Self>, damaged: &DamagedPool<'_, M>, repair: &mut Repair) -> Result<(), RepairError>;
}

/// A map in a pool that is repaired.
pub struct DamagedMap<'a> {
    /// Offset of its root object.
    pub root: PoolOffset,
    /// The way to it from the root of the pool, as `Shop.stock`, or the name of the tree.
    pub path: String,
    /// Returns true if an entry with these bytes, key and value, can be one of the map.
    pub has_room_for: &'a dyn Fn(&[u8], &[u8]) -> bool,
}

impl fmt::Debug for DamagedMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DamagedMap").field("root", &self.root).finish_non_exhaustive()
    }
}
