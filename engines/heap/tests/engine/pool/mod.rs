//! A pool in memory that can be opened again, with the code of persistent memory.
#![allow(clippy::unwrap_used, reason = "a test that can't make its pool has failed")]

use lode_heap::{Brand, Heap, TypedHeap};
use lode_pmem::Mapping;
use lode_testing::{heap, memory};
use std::sync::Arc;

pub(crate) type Medium = Arc<Mapping>;

/// A formatted pool.
pub(crate) struct Pool {
    medium: Medium,
    lives: u64,
}

impl Pool {
    pub(crate) fn new(len: u64) -> Pool {
        let medium = Arc::new(memory::persistent(len));
        heap::format(&medium);
        Pool { medium, lives: 1 }
    }

    /// Opens the heap; the one opened before was closed, or dropped as by a crash.
    pub(crate) fn heap(&mut self) -> Heap<Medium> {
        self.lives += 1;
        heap::open(Arc::clone(&self.medium), self.lives)
    }

    /// The memory, to lose some of it.
    pub(crate) fn medium(&self) -> &Medium {
        &self.medium
    }

    pub(crate) fn typed<B: Brand>(&mut self) -> TypedHeap<B, Medium> {
        TypedHeap::new(self.heap())
    }
}
