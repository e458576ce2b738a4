//! The growth of an open pool.

use super::Pool;
use crate::error::ObjError;
use crate::growth::Growth;
use lode_pmem::Medium;
use std::sync::Arc;

impl<M: Medium> Pool<M> {
    /// Lets the pool grow in the files of its medium: by [`growth_step`](Pool::growth_step) when it is full, and by
    /// [`extend`](Pool::extend).
    pub fn let_grow(&mut self)
    where
        M: Growth + 'static,
    {
        let files: Arc<M> = Arc::clone(&self.medium);
        self.heap.growing.set_files(files);
    }

    /// Makes the heap longer by a part of `len` bytes, or by as many as there is room for.
    ///
    /// # Errors
    /// [`ObjError::NotGrown`]; [`ObjError::InDoubt`], [`ObjError::Cover`] if the next open completes the growth.
    ///
    /// # Durability
    /// On return. After a crash before that, the pool has the old size or the new one.
    ///
    /// # Cost
    /// Allocates a part. Two drains.
    pub fn extend(&self, len: u64) -> Result<(), ObjError> {
        self.heap.extend(&self.cover, len)
    }

    /// Returns the bytes of a part by which the pool grows when it is full; 0 if it does not grow by itself.
    pub fn growth_step(&self) -> u64 {
        self.heap.growing.step()
    }

    /// Sets the bytes of a part by which the pool grows when it is full; 0 if it is not to grow by itself.
    pub fn set_growth_step(&self, step: u64) {
        self.heap.growing.set_step(step);
    }

    /// Returns the offset of the first byte after the heap.
    pub fn heap_end(&self) -> u64 {
        self.heap.end()
    }
}
