//! An object pool as its bytes lie: descriptor, state and the places that follow from them.

use crate::error::{DamageReason, ObjError, Structure};
use lode_layout::{PmdkHeap, PmdkObj, PmdkObjState, PmdkUlog, PoolOffset, WORD};
use lode_pmem::Medium;
use lode_pmem::sync::{AtomicU64, Ordering};
use std::sync::Arc;

/// An object pool whose descriptor, state and heap header are sound. All else is checked when it is read.
///
/// The layer above has judged the pool's headers. A view caches nothing that a program changes, except for the state at its opening.
#[derive(Debug)]
pub struct ObjView<M> {
    medium: M,
    parts: ViewParts,
}

/// The parts of a view that are not its medium. Clones share the size of the heap.
#[derive(Clone, Debug)]
pub(crate) struct ViewParts {
    descriptor: Arc<Described>,
    state: PmdkObjState,
}

/// The descriptor, and the size of the heap.
#[derive(Debug)]
struct Described {
    descriptor: PmdkObj,
    /// Bytes of the heap. They become more when it grows.
    heap_size: AtomicU64,
}

impl<M: Medium> ObjView<M> {
    /// Reads the pool on `medium`.
    ///
    /// # Errors
    /// [`ObjError::Damaged`] if the descriptor, the state or the header of the heap breaks a rule; [`ObjError::Memory`].
    ///
    /// # Cost
    /// Reads 4 KiB, and stores nothing.
    pub fn open(medium: M) -> Result<ObjView<M>, ObjError> {
        let size = medium.memory().len();
        let place = PoolOffset::new(PmdkObj::OFF);
        let descriptor = PmdkObj::decode(&read(&medium, place)?)
            .map_err(ObjError::damaged(Structure::Descriptor, place))?;
        let heap = descriptor.heap;
        let heap_max = size.checked_sub(heap).filter(|rest| *rest > PmdkHeap::LEN as u64);
        let too_small = ObjError::of(Structure::Descriptor, place, DamageReason::PoolSize { size, heap });
        let heap_max = heap_max.ok_or(too_small)?;
        let state = PmdkObjState::decode(read(&medium, PmdkObjState::OFF)?, heap_max)
            .map_err(ObjError::damaged(Structure::State, PmdkObjState::OFF))?;
        let heap = PoolOffset::new(heap);
        PmdkHeap::check(&read(&medium, heap)?).map_err(ObjError::damaged(Structure::Heap, heap))?;
        // A pool that was never opened since it was made.
        let heap_size = if state.heap_size == 0 { heap_max } else { state.heap_size };
        let described = Described { descriptor, heap_size: AtomicU64::new(heap_size) };
        Ok(ObjView { medium, parts: ViewParts { descriptor: Arc::new(described), state } })
    }

    pub(crate) fn word(&self, at: PoolOffset) -> Result<u64, ObjError> {
        Ok(u64::from_le_bytes(self.bytes(at)?))
    }

    pub(crate) fn bytes<const N: usize>(&self, at: PoolOffset) -> Result<[u8; N], ObjError> {
        read(&self.medium, at)
    }

    /// Reads a range. It allocates `len` bytes, so the caller has bounded it.
    pub(crate) fn range(&self, at: PoolOffset, len: u64) -> Result<Vec<u8>, ObjError> {
        let mut bytes = vec![0; len as usize];
        self.medium.memory().reading(|memory| memory.read(at, &mut bytes))?;
        Ok(bytes)
    }
}

impl<M> ObjView<M> {
    /// Returns a view of a pool that was read before.
    pub(crate) fn of(medium: M, parts: &ViewParts) -> ObjView<M> {
        ObjView { medium, parts: parts.clone() }
    }

    pub(crate) fn parts(&self) -> &ViewParts {
        &self.parts
    }

    /// Returns the medium.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// Returns the descriptor.
    pub fn descriptor(&self) -> &PmdkObj {
        &self.parts.descriptor.descriptor
    }

    /// Returns the state as it was when the pool was read.
    pub fn state(&self) -> &PmdkObjState {
        &self.parts.state
    }

    /// Returns the bytes of the heap.
    pub fn heap_size(&self) -> u64 {
        // ORDER: acquires the headers of the new bytes of a heap that has grown.
        self.parts.descriptor.heap_size.load(Ordering::Acquire)
    }

    /// Notes the size of a heap that has grown, for all views with the same parts.
    pub(crate) fn set_heap_size(&self, size: u64) {
        // ORDER: releases what the caller stored to the new bytes.
        self.parts.descriptor.heap_size.store(size, Ordering::Release);
    }

    /// Returns the offset of the first byte after the heap.
    pub fn heap_end(&self) -> u64 {
        self.descriptor().heap + self.heap_size()
    }

    /// Returns true if the range lies in the heap.
    pub fn is_in_heap(&self, at: PoolOffset, len: u64) -> bool {
        at.get() >= self.descriptor().heap
            && at.get().checked_add(len).is_some_and(|end| end <= self.heap_end())
    }

    /// Returns true if a log may change the range: it lies in the heap, in a lane, or is the word of the root or of its size.
    pub(crate) fn is_target(&self, at: PoolOffset, len: u64) -> bool {
        let PmdkObj { lanes, lane_count, .. } = *self.descriptor();
        let lanes_end = lanes + lane_count * PmdkUlog::LANE_LEN;
        let is_root = at == PmdkObjState::ROOT_OFF || at == PmdkObjState::ROOT_SIZE_OFF;
        self.is_in_heap(at, len)
            || (at.get() >= lanes && at.get().checked_add(len).is_some_and(|end| end <= lanes_end))
            || (is_root && len == WORD)
    }
}

fn read<const N: usize>(medium: &impl Medium, at: PoolOffset) -> Result<[u8; N], ObjError> {
    let mut bytes = [0; N];
    medium.memory().reading(|memory| memory.read(at, &mut bytes))?;
    Ok(bytes)
}
