//! Reading outside of a transaction.

use super::brand::Brand;
use crate::error::HeapError;
use crate::heap::Heap;
use crate::persist::place_of;
use crate::readers::Pin;
use lode_layout::PoolOffset;
use lode_pmem::{Mapping, Medium, Memory, Readable};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A reader's guard: objects that the thread can reach are not reused while it lives. References lent under it end
/// with it.
pub struct Guard<'a, B: Brand, M: Medium = Arc<Mapping>> {
    heap: &'a Heap<M>,
    /// Held for its drop.
    _pin: Pin<'a>,
    brand: PhantomData<fn() -> B>,
}

impl<'a, B: Brand, M: Medium> Guard<'a, B, M> {
    pub(super) fn new(heap: &'a Heap<M>) -> Guard<'a, B, M> {
        Guard { heap, _pin: heap.pin(), brand: PhantomData }
    }

    pub(super) fn heap(&self) -> &'a Heap<M> {
        self.heap
    }

    #[inline]
    pub(crate) fn memory(&self) -> &Memory {
        self.heap.memory()
    }

    /// Returns the offset of something in the pool.
    ///
    /// # Panics
    /// Panics if it lies elsewhere.
    pub(super) fn place_of<T>(&self, place: &T) -> PoolOffset {
        place_of(self.memory(), place).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the result of a `read` during which no transaction changed the words that the lock of `at` guards.
    /// Repeats `read` until there is one.
    pub(crate) fn read_consistent<R>(&self, at: PoolOffset, mut read: impl FnMut() -> R) -> R {
        let heap = self.heap;
        for round in 0.. {
            let mark = heap.begin_read(at);
            // Words that this thread has locked itself can't change while it is here, unless they are pending.
            if mark.is_none() && (heap.pending().is_some() || !heap.holds_lock(at)) {
                heap.medium().relax(round);
                continue;
            }
            let result = read();
            if mark.is_none_or(|mark| heap.is_unchanged(at, mark)) {
                return result;
            }
        }
        unreachable!("the loop ends with a result")
    }

    /// Reads as [`read_consistent`](Guard::read_consistent) does, for reads that copy out of the pool. Returns the fault
    /// of the read whose result counts: one that follows a pointer while the words change may read anywhere.
    pub(crate) fn copy_consistent<R>(
        &self,
        at: PoolOffset,
        mut read: impl FnMut(&Readable) -> R,
    ) -> Result<R, HeapError> {
        Ok(self.read_consistent(at, || self.memory().reading(&mut read))?)
    }
}

impl<B: Brand, M: Medium> fmt::Debug for Guard<'_, B, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}
