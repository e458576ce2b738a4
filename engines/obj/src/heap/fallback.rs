//! The space that is left when the class of a size has none, and no chunks are free for a new run of it.
//!
//! PMDK refuses such an object. Here it gets blocks of another class, or chunks of its own, so that a full pool refuses only what no free
//! space has room for.

use super::Heap;
use super::arena::Arena;
use super::class::Class;
use super::runs::Make;
use crate::action::Reservation;
use crate::error::ObjError;
use lode_layout::{PmdkHeap, PmdkObjectHeaderKind};
use lode_pmem::Medium;
use lode_redo::cover::Cover;

impl Heap {
    /// Reserves space for `size` bytes outside of runs of `refused`. `None` if there is none.
    #[cold]
    pub(super) fn reserve_elsewhere<M: Medium>(
        &self,
        cover: &Cover<M>,
        arena: &Arena,
        refused: &Class,
        size: u64,
    ) -> Result<Option<Reservation>, ObjError> {
        let suitable = self.classes.suitable(size);
        for make in [Make::Never, Make::IfNeeded] {
            let fewer_chunks = |class: &Class| make == Make::Never || class.key.chunks < refused.key.chunks;
            for (class, count) in &suitable {
                if class.id != refused.id && fewer_chunks(class) {
                    let found = self.reserve_units(cover, arena, class, *count, make)?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
            }
        }
        if refused.has_whole_chunks() {
            return Ok(None);
        }
        let chunks = (size + PmdkObjectHeaderKind::Compact.len()).div_ceil(PmdkHeap::CHUNK);
        u32::try_from(chunks).map_or(Ok(None), |count| self.reserve_chunks(cover, count))
    }
}
