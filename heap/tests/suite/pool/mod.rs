//! A pool in memory that can be opened again, with the code of persistent memory.
#![allow(clippy::unwrap_used, reason = "a test that can't make its pool has failed")]

use lode_heap::{Brand, Heap, TypedHeap};
use lode_layout::Geometry;
use lode_pmem::{Mapping, Rung};
use std::sync::Arc;

pub(crate) type Medium = Arc<Mapping>;

const UUID: [u8; 16] = [9; 16];

/// A formatted pool.
pub(crate) struct Pool {
    medium: Medium,
    geometry: Geometry,
    lives: u64,
}

impl Pool {
    pub(crate) fn new(len: u64) -> Pool {
        let medium = Arc::new(Mapping::options().rung(Rung::Line).map_anonymous(len).unwrap());
        let geometry = Geometry::plan(len).unwrap();
        Heap::format(&medium, &geometry, &UUID, [1, 1]).unwrap();
        Pool { medium, geometry, lives: 1 }
    }

    /// Opens the heap; the one opened before was closed, or dropped as by a crash.
    pub(crate) fn heap(&mut self) -> Heap<Medium> {
        self.lives += 1;
        let life = [self.lives, self.lives];
        Heap::open(Arc::clone(&self.medium), &self.geometry, UUID, life).unwrap().0
    }

    /// The memory, to lose some of it.
    pub(crate) fn medium(&self) -> &Medium {
        &self.medium
    }

    pub(crate) fn typed<B: Brand>(&mut self) -> TypedHeap<B, Medium> {
        TypedHeap::new(self.heap()).unwrap()
    }
}
