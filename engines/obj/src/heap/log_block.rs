//! The chunks of the log, which the heap gets when it is full otherwise.

use super::free_space::Extent;
use super::{Heap, lock};
use crate::error::ObjError;
use lode_layout::Record;
use lode_pmem::Medium;
use lode_redo::cover::{Cover, CoverError};

impl Heap {
    /// Returns the free block that the log has, if it has one still.
    pub(crate) fn log_block(&self) -> Option<Extent> {
        *lock(&self.log_block)
    }

    /// Moves the log to the place of the lanes, and takes its chunks for free ones. Returns false if it has none, if they do not make
    /// a block of `count` chunks, or if an open transaction is too large for the other place. The caller holds [`Heap::order`].
    #[cold]
    pub(super) fn take_log_block<M: Medium>(&self, cover: &Cover<M>, count: u32) -> Result<bool, ObjError> {
        let Some(block) = self.log_block() else { return Ok(false) };
        let beside = {
            let free = lock(&self.free);
            [free.before(block.0), free.after(block)].into_iter().flatten().map(|(_, len)| len).sum::<u32>()
        };
        if block.1 + beside < count {
            return Ok(false);
        }
        // ORDER: the log is elsewhere, durably, before an object gets its chunks. Stop here: they are a free block in any case.
        if !cover.move_log().map_err(CoverError::from)? {
            return Ok(false);
        }
        *lock(&self.log_block) = None;
        // With the free blocks beside it, so that a run of many chunks finds room across the place where the log began.
        let merged = self.merge(vec![block]);
        // ORDER: the larger block on the medium before it is given away. Stop here: they are several.
        let committed = self.commit_merged(cover, merged, Record::new());
        committed.inspect_err(|_| lock(&self.free).add(block)).map(|()| true)
    }
}
