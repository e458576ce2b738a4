//! A pool in a file, under a brand.

use super::brand::Brand;
use super::heap::TypedHeap;
use super::migration::Migrated;
use crate::error::HeapError;
use crate::persist::Persist;
use crate::pool::{OpenError, Pool, grow_file};
use lode_layout::Header;
use lode_pmem::{DurabilityReport, Mapping, Medium};
use lode_pool::{CreateOptions, OpenOptions, PoolFile};
use lode_redo::Recovery;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// An open pool in a file or on a device, whose objects have types. It has a [`TypedHeap`], to which it derefs, and
/// the file's header and lock.
///
/// Dropping it instead of [`close`](TypedPool::close) is no damage: a crash does the same.
#[derive(Debug)]
pub struct TypedPool<B: Brand, M: Medium = Arc<Mapping>> {
    // In this order: the heap is dropped before the lock on the file.
    heap: TypedHeap<B, M>,
    file: PoolFile,
    recovery: Recovery,
}

impl<M: Medium> Pool<M> {
    /// Puts the pool under the brand `B`: the compiler then checks the types of its objects. No other handle may
    /// store to the medium from then on.
    pub fn typed<B: Brand>(self) -> TypedPool<B, M> {
        let (heap, file, recovery) = self.into_parts();
        TypedPool { heap: TypedHeap::new(heap), file, recovery }
    }
}

impl<B: Brand> TypedPool<B> {
    /// Makes a pool at `path` without a root, and opens it.
    ///
    /// # Errors
    /// As [`Pool::create`].
    ///
    /// # Durability
    /// As [`Pool::create`].
    pub fn create(path: &Path, options: &CreateOptions) -> Result<TypedPool<B>, OpenError> {
        Pool::create(path, options).map(Pool::typed)
    }

    /// Opens the pool at `path`.
    ///
    /// # Errors
    /// As [`Pool::open`].
    ///
    /// # Durability
    /// As [`Pool::open`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<TypedPool<B>, OpenError> {
        Pool::open(path, options).map(Pool::typed)
    }
}

impl<B: Brand, M: Medium> TypedPool<B, M> {
    /// Returns the header as it is now.
    pub fn header(&self) -> Header {
        self.file.header()
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the durability, and how it was found.
    pub fn report(&self) -> &DurabilityReport {
        self.file.medium().report()
    }

    /// Returns the result of the recovery at opening.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Makes the pool `size` bytes long, rounded down to chunks, while it is in use.
    ///
    /// # Errors
    /// As [`Pool::grow`].
    ///
    /// # Durability
    /// As [`Pool::grow`].
    pub fn grow(&self, size: u64) -> Result<(), OpenError> {
        grow_file(self.heap.raw(), &self.file, size)
    }

    /// Converts the objects of older types, as [`TypedHeap::migrate`] does.
    ///
    /// # Errors
    /// As [`TypedHeap::migrate`].
    ///
    /// # Durability
    /// As [`TypedHeap::migrate`].
    pub fn migrate<T: Persist<B>>(&mut self, progress: impl FnMut(Migrated)) -> Result<Migrated, HeapError> {
        self.heap.migrate::<T>(progress)
    }

    /// Does what [`migrate`](TypedPool::migrate) does, with transactions of so many pointers, as [`TypedHeap::migrate_in_steps`].
    ///
    /// # Errors
    /// As [`TypedHeap::migrate`].
    ///
    /// # Durability
    /// As [`TypedHeap::migrate`].
    pub fn migrate_in_steps<T: Persist<B>>(
        &mut self,
        pointers: u64,
        progress: &mut dyn FnMut(Migrated),
    ) -> Result<Migrated, HeapError> {
        self.heap.migrate_in_steps::<T>(pointers, progress)
    }

    /// Does what [`migrate`](TypedPool::migrate) does in one transaction.
    ///
    /// # Errors
    /// As [`TypedHeap::migrate_at_once`].
    ///
    /// # Durability
    /// Durable on return.
    pub fn migrate_at_once<T: Persist<B>>(&mut self) -> Result<Migrated, HeapError> {
        self.heap.migrate_at_once::<T>()
    }

    /// Closes the pool: all write-backs are durable, and the next opening has nothing to replay.
    ///
    /// # Errors
    /// As [`Pool::close`].
    pub fn close(self) -> Result<(), OpenError> {
        let TypedPool { heap, file, recovery } = self;
        Pool::from_heap(heap.into_raw(), file, recovery).close()
    }
}

impl<B: Brand, M: Medium> Deref for TypedPool<B, M> {
    type Target = TypedHeap<B, M>;

    fn deref(&self) -> &TypedHeap<B, M> {
        &self.heap
    }
}
