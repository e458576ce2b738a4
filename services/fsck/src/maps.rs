//! The part of the crate of maps in checks and repairs of typed data, whose objects own maps.

use crate::damaged_pool::DamagedPool;
use crate::outcome::{Repair, RepairError};
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
}

/// Maps in the middle of a salvage.
pub trait UnlinkedMaps<M: Medium> {
    /// Inserts sound entries to which nothing leads into those of `maps` whose they are, by transactions.
    ///
    /// # Errors
    /// [`RepairError`]. The repair can be run again.
    fn reinsert(
        &mut self,
        heap: &Heap<Arc<M>>,
        maps: &[DamagedMap<'_>],
        repair: &mut Repair,
    ) -> Result<(), RepairError>;

    /// Corrects the counts of the maps, durably on return, and records the keys that are lost.
    ///
    /// # Errors
    /// [`RepairError`]. The repair can be run again.
    fn finish(self: Box<Self>, damaged: &DamagedPool<'_, M>, repair: &mut Repair) -> Result<(), RepairError>;
}

/// A map in a pool that is repaired.
pub struct DamagedMap<'a> {
    /// Offset of its root object.
    pub root: PoolOffset,
    /// The way to it from the root of the pool, as `Shop.stock`.
    pub path: String,
    /// Returns true if an entry with these bytes, key and value, can be one of the map.
    pub has_room_for: &'a dyn Fn(&[u8], &[u8]) -> bool,
}

impl fmt::Debug for DamagedMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DamagedMap").field("root", &self.root).finish_non_exhaustive()
    }
}
