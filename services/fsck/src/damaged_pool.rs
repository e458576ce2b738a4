//! A pool that is repaired.

use lode_layout::Geometry;
use lode_pmem::Medium;
use std::sync::Arc;

/// A pool whose content is to be salvaged.
#[derive(Debug)]
pub struct DamagedPool<'a, M: Medium> {
    /// The medium that holds the pool.
    pub medium: &'a Arc<M>,
    /// The places of its structures.
    pub geometry: &'a Geometry,
    /// The UUID of the pool.
    pub uuid: [u8; 16],
    /// A random number, as for [`Heap::open`](lode_heap::Heap::open).
    pub log_epoch: [u64; 2],
    /// True if all descriptors, span headers and bitmaps were sound before the repair.
    pub space_was_sound: bool,
}
