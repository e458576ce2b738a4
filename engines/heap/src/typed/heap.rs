//! A heap under a brand.

use super::brand::Brand;
use super::guard::Guard;
use super::root::{self, ComparedTypes};
use super::survey::TypedSurvey;
use super::tx::TypedTx;
use crate::error::HeapError;
use crate::heap::Heap;
use crate::persist::Persist;
use crate::ptr;
use crate::session::Session;
use crate::walk::{HeapStats, Object};
use lode_layout::PoolOffset;
use lode_pmem::{Durability, Mapping, Medium};
use std::marker::PhantomData;
use std::sync::Arc;

/// A heap whose objects have types, which the compiler checks. `B` is the pool's [brand](crate::brand). For a pool in
/// a file it is a part of the [`TypedPool`](crate::TypedPool).
///
/// The medium belongs to the heap alone: a program that stores to it by another handle breaks the types.
#[derive(Debug)]
pub struct TypedHeap<B: Brand, M: Medium = Arc<Mapping>> {
    heap: Heap<M>,
    compared: ComparedTypes,
    brand: PhantomData<fn() -> B>,
}

impl<B: Brand, M: Medium> TypedHeap<B, M> {
    /// Puts `heap` under the brand.
    pub fn new(heap: Heap<M>) -> TypedHeap<B, M> {
        TypedHeap { heap, compared: ComparedTypes::default(), brand: PhantomData }
    }

    /// Returns the heap, no longer under the brand.
    pub(crate) fn into_raw(self) -> Heap<M> {
        self.heap
    }

    /// Runs `closure` as a transaction, as [`Heap::run`] does. All its changes are durable when this returns `Ok`.
    /// Nothing is changed when this returns an error or panics. A call inside of another closure joins that
    /// transaction.
    ///
    /// # Errors
    /// Fails with the closure's error, or with another [`HeapError`]. A closure with an error type of its own runs by
    /// [`try_run`](TypedHeap::try_run).
    ///
    /// # Durability
    /// Durable on return of the outermost call.
    ///
    /// # Cost
    /// That of [`Heap::run`], and a pin.
    #[inline]
    pub fn run<R>(
        &self,
        closure: impl FnMut(&TypedTx<'_, B, M>) -> Result<R, HeapError>,
    ) -> Result<R, HeapError> {
        self.try_run(closure)
    }

    /// Runs `closure` as [`run`](TypedHeap::run) does, with an error type of the caller.
    ///
    /// # Errors
    /// As [`run`](TypedHeap::run), converted.
    ///
    /// # Durability
    /// As [`run`](TypedHeap::run).
    ///
    /// # Cost
    /// That of [`run`](TypedHeap::run).
    ///
    /// # Example
    /// ```
    /// use lode_heap::{HeapError, PCell, TypedPool};
    /// lode_heap::brand!(Shop);
    ///
    /// #[derive(Debug)]
    /// enum SaleError {
    ///     SoldOut,
    ///     Heap(HeapError),
    /// }
    ///
    /// impl From<HeapError> for SaleError {
    ///     fn from(error: HeapError) -> SaleError {
    ///         SaleError::Heap(error)
    ///     }
    /// }
    ///
    /// fn sell(pool: &TypedPool<Shop>, in_stock: &PCell<u32, Shop>) -> Result<(), SaleError> {
    ///     pool.try_run(|tx| {
    ///         let left = in_stock.get(tx)?.checked_sub(1).ok_or(SaleError::SoldOut)?;
    ///         in_stock.set(tx, left)?;
    ///         Ok(())
    ///     })
    /// }
    /// ```
    #[inline]
    pub fn try_run<R, E: From<HeapError>>(
        &self,
        mut closure: impl FnMut(&TypedTx<'_, B, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        let session = self.heap.session();
        if session.is_active() {
            return self.heap.join(&session, |tx| closure(&TypedTx::new(tx, &self.compared)));
        }
        let result = self.run_pinned(&session, &mut closure);
        // The pin itself may have kept space from reuse that this thread freed before.
        if result.is_err() && self.heap.reclaim() {
            return self.run_pinned(&session, &mut closure);
        }
        result
    }

    #[inline]
    fn run_pinned<R, E: From<HeapError>>(
        &self,
        session: &Session,
        closure: &mut impl FnMut(&TypedTx<'_, B, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        // Held until the write-backs are done, so no block that another thread frees is used again earlier.
        let _pin = self.heap.pin();
        self.heap.run_as(session, |tx| closure(&TypedTx::new(tx, &self.compared)))
    }

    /// Returns a guard for reads outside of a transaction.
    ///
    /// # Panics
    /// Panics inside of a transaction: a read with [`load`](crate::PCell::load) would miss the transaction's own
    /// changes. Use [`get`](crate::PCell::get) there.
    ///
    /// # Cost
    /// One locked instruction. Freed space is not used again while an older guard lives.
    #[inline]
    pub fn guard(&self) -> Guard<'_, B, M> {
        assert!(!self.heap.in_transaction(), "a guard can't be made inside of a transaction");
        Guard::new(&self.heap)
    }

    /// Returns the root, from which all objects are reached; `None` while there is none.
    ///
    /// # Errors
    /// [`HeapError::OtherTypes`] when the pool's types are not those of a root `T`: it shows both layouts of the first type that
    /// differs. [`HeapError::NotMigrated`] when they are older ones, which [`migrate`](TypedHeap::migrate) converts.
    /// [`HeapError::NotTyped`] when the root is not typed data; [`HeapError::TypeTable`], [`HeapError::Corrupt`],
    /// [`HeapError::Fault`].
    ///
    /// # Cost
    /// The types are compared by the first call; later calls look up the object.
    pub fn root<T: Persist<B>>(&self) -> Result<Option<&T>, HeapError> {
        ptr::root(&self.heap, &self.compared)
    }

    /// Returns the root. If there is none yet, `init` makes it, in one transaction.
    ///
    /// # Errors
    /// As [`root`](TypedHeap::root) and [`run`](TypedHeap::run), and the error of `init`;
    /// [`HeapError::InTransaction`] inside of a transaction.
    ///
    /// # Durability
    /// Durable on return.
    pub fn root_or_init<T: Persist<B>>(
        &self,
        mut init: impl FnMut(&TypedTx<'_, B, M>) -> Result<T, HeapError>,
    ) -> Result<&T, HeapError> {
        if self.heap.in_transaction() {
            return Err(HeapError::InTransaction);
        }
        self.run(|tx| {
            tx.raw().lock_root()?;
            if tx.raw().root()?.is_null() {
                let root = tx.alloc(init(tx)?)?;
                root::set_root::<T, B, M>(tx.raw(), root.into_offset())?;
            }
            Ok(())
        })?;
        let root = self.root()?;
        root.ok_or(HeapError::NoObject { at: PoolOffset::NULL })
    }

    /// Returns the content, to be read by the pool's table of types; `None` while there is no root.
    ///
    /// # Errors
    /// As [`TypedSurvey::open`].
    pub fn survey(&self) -> Result<Option<TypedSurvey<'_, M>>, HeapError> {
        TypedSurvey::open(&self.heap)
    }

    /// Returns every allocated object, in the order of offsets.
    pub fn objects(&self) -> impl Iterator<Item = Result<Object, HeapError>> + '_ {
        self.heap.objects()
    }

    /// Returns the fill level of the heap.
    ///
    /// # Errors
    /// As [`Heap::stats`].
    pub fn stats(&self) -> Result<HeapStats, HeapError> {
        self.heap.stats()
    }

    /// Returns the durability of the medium.
    pub fn durability(&self) -> Durability {
        self.heap.medium().durability()
    }

    /// Forgets which types were compared, before they change.
    pub(super) fn forget_compared(&mut self) {
        self.compared = ComparedTypes::default();
    }

    /// Returns the heap, for the growth of its pool, and for [`raw_heap`].
    pub(crate) fn raw(&self) -> &Heap<M> {
        &self.heap
    }

    /// Makes all write-backs durable, so the next opening has nothing to replay.
    ///
    /// # Errors
    /// As [`Heap::close`].
    pub fn close(self) -> Result<(), HeapError> {
        self.heap.close()
    }
}

/// Returns the untyped heap, for crates that keep [structures](super::structure) or [trees](super::trees). They change objects of
/// their own by it only.
pub fn raw_heap<B: Brand, M: Medium>(heap: &TypedHeap<B, M>) -> &Heap<M> {
    heap.raw()
}
