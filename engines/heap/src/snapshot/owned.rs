//! Snapshots that keep their heap.

use super::Snapshot;
use super::open::OpenSnapshot;
use crate::error::HeapError;
use crate::heap::Heap;
use lode_pmem::Medium;
use std::ops::Deref;
use std::sync::Arc;

/// A [`Snapshot`] that owns `H`, usually an `Arc`, by which it keeps its heap: for readers that outlive the function that
/// opened it.
#[derive(Debug)]
pub struct OwnedSnapshot<M: Medium, H: Deref<Target = Heap<M>>> {
    heap: H,
    key: u64,
    open: Arc<OpenSnapshot>,
}

impl<M: Medium, H: Deref<Target = Heap<M>>> OwnedSnapshot<M, H> {
    /// Opens a snapshot of the heap, as [`Heap::snapshot`] does.
    ///
    /// # Errors
    /// As [`Heap::snapshot`].
    pub fn open(heap: H) -> Result<OwnedSnapshot<M, H>, HeapError> {
        let mut opened = heap.snapshot()?;
        opened.is_lent = true;
        let (key, open) = (opened.key, Arc::clone(&opened.open));
        drop(opened);
        Ok(OwnedSnapshot { heap, key, open })
    }

    /// Returns the snapshot, for reads.
    pub fn get(&self) -> Snapshot<'_, M> {
        Snapshot { heap: &self.heap, key: self.key, open: Arc::clone(&self.open), is_lent: true }
    }
}

impl<M: Medium, H: Deref<Target = Heap<M>>> Drop for OwnedSnapshot<M, H> {
    fn drop(&mut self) {
        let mut owner = self.get();
        owner.is_lent = false;
    }
}
