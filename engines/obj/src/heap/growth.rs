//! Growth of the heap: by itself when no free block is large enough, and by hand.
//!
//! | stops after | media | next open |
//! |---|---|---|
//! | new bytes of the memory | the heap ends before them | nothing: the next growth takes them |
//! | the size of the heap | its last zone has fewer chunks than fit | gives the zone the rest, as PMDK does |
//! | the record of the headers | the zone has them | nothing |

use super::{Heap, lock};
use crate::bugs;
use crate::error::ObjError;
use crate::growth::{Growth, GrowthRefusal};
use crate::words::store_words;
use lode_layout::{PmdkHeap, PmdkObjState, PmdkZone, Record};
use lode_pmem::sync::{AtomicU64, Ordering, SpinMutex};
use lode_pmem::{Medium, hold};
use lode_redo::cover::Cover;
use std::sync::Arc;

/// Bytes of a part by which a pool grows by itself, unless the program sets others.
const STEP: u64 = 128 << 20;

/// The files in which a heap grows, and by how much.
#[derive(Debug)]
pub(crate) struct Growing {
    /// `None` for a pool of a fixed size.
    files: Option<Arc<dyn Growth>>,
    /// Bytes by which the heap grows by itself; 0 if it does not.
    step: AtomicU64,
    /// The last refusal.
    refusal: SpinMutex<Option<GrowthRefusal>>,
}

impl Default for Growing {
    fn default() -> Growing {
        Growing { files: None, step: AtomicU64::new(STEP), refusal: SpinMutex::new(None) }
    }
}

impl Growing {
    /// Lets the heap grow in these files.
    pub(crate) fn set_files(&mut self, files: Arc<dyn Growth>) {
        self.files = Some(files);
    }

    /// Returns the bytes by which the heap grows by itself; 0 if it does not.
    pub(crate) fn step(&self) -> u64 {
        // ORDER: a number of its own, which orders nothing.
        self.step.load(Ordering::Relaxed)
    }

    /// Sets the bytes by which the heap grows by itself.
    pub(crate) fn set_step(&self, step: u64) {
        // ORDER: as above.
        self.step.store(step, Ordering::Relaxed);
    }

    /// Returns the reason why the heap did not grow when it was asked last; `None` if it has a fixed size.
    pub(super) fn refusal(&self) -> Option<GrowthRefusal> {
        if self.files.is_some() { *lock(&self.refusal) } else { None }
    }

    /// Makes the memory longer.
    fn grow(&self, len: u64) -> Result<(), GrowthRefusal> {
        let files = self.files.as_ref().ok_or(GrowthRefusal::FixedSize)?;
        let grown = if len == 0 { Err(GrowthRefusal::Off) } else { files.grow(len) };
        *lock(&self.refusal) = grown.err();
        grown
    }
}

impl Heap {
    /// Makes the heap longer by a part of `len` bytes, or by as many as there is room for.
    ///
    /// # Errors
    /// [`ObjError::NotGrown`]; [`ObjError::InDoubt`], [`ObjError::Cover`] if the next open completes the growth.
    ///
    /// # Durability
    /// On return.
    ///
    /// # Cost
    /// Allocates a part. Two drains.
    pub(crate) fn extend<M: Medium>(&self, cover: &Cover<M>, len: u64) -> Result<(), ObjError> {
        let _order = hold(&self.order, cover.medium());
        self.growing.grow(len)?;
        self.take_memory(cover)?;
        Ok(())
    }

    /// Makes the heap longer if it grows by itself. Returns false if it does not. The caller holds [`Heap::order`].
    #[cold]
    pub(super) fn grow_by_itself<M: Medium>(&self, cover: &Cover<M>) -> Result<bool, ObjError> {
        if self.growing.files.is_none() {
            return Ok(false);
        }
        // A part that a growth before a crash has left.
        if self.take_memory(cover)? {
            return Ok(true);
        }
        Ok(self.growing.grow(self.growing.step()).is_ok() && self.take_memory(cover)?)
    }

    /// Gives the heap what the memory has more. Returns false if that is no chunk. The caller holds [`Heap::order`].
    fn take_memory<M: Medium>(&self, cover: &Cover<M>) -> Result<bool, ObjError> {
        let medium = cover.medium();
        let old = self.places.heap_size();
        let new = medium.memory().len() - self.places.descriptor().heap;
        let last = PmdkHeap::zone_count(old).saturating_sub(1);
        let counts = [old, new].map(|size| PmdkHeap::chunk_count(size, last));
        if new <= old || (counts[0] == counts[1] && PmdkHeap::zone_count(new) == last + 1) {
            return Ok(false);
        }
        cover.grow();
        if !bugs::CHUNKS_BEFORE_SIZE.is_active() {
            store_words(medium, [(PmdkObjState::HEAP_SIZE_OFF, new)])?;
            // ORDER: the size before the headers of chunks that lie after the old end. Stop here: row 2 of the table.
            medium.drain()?;
        }
        self.places.set_heap_size(new);
        let is_unused = lock(&self.free).unused_zones.contains(&(last as u32));
        if !is_unused && counts[1] > counts[0] {
            self.extend_zone(cover, last as u32, counts)?;
        }
        if bugs::CHUNKS_BEFORE_SIZE.is_active() {
            store_words(medium, [(PmdkObjState::HEAP_SIZE_OFF, new)])?;
        }
        let mut free = lock(&self.free);
        // The first one is taken first.
        for zone in last + 1..PmdkHeap::zone_count(new) {
            free.unused_zones.insert(0, zone as u32);
        }
        Ok(true)
    }

    /// Gives a zone in use more chunks: `counts` are the old number and the new one.
    fn extend_zone<M: Medium>(&self, cover: &Cover<M>, zone: u32, counts: [u32; 2]) -> Result<(), ObjError> {
        let [old, new] = counts;
        let merged = self.merge(vec![((zone, old), new - old)]);
        let mut headers = Record::new();
        headers.push_word(self.places.zone_at(zone.into()), PmdkZone { chunk_count: new }.encode());
        // ORDER: the headers before a new chunk is given away. Stop here: row 3 of the table.
        self.commit_merged(cover, merged, headers)
    }
}
