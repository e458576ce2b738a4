//! Fields that own a structure of objects which another crate keeps, such as a tree.
//!
//! ```text
//!   object of a program     a field of one word: null, or the offset of the structure's root object
//!        |
//!   structure               objects that the crate of the structure alone reads and changes
//! ```
//!
//! The crate implements [`Structure`], and declares the field with `structure_field!`. This crate then frees the structure with
//! its owner, moves it in a migration, and describes it in the type table. It never looks into it.
//!
//! This module is for such crates, not for programs. [`raw_tx`] lends the untyped transaction: a crate stores by it to the objects of
//! its own structures only. A store to any other object breaks the types, as a second handle to the medium does.

use super::brand::Brand;
pub use super::freeing_tx::FreeingTx;
use super::guard::Guard;
use super::tx::TypedTx;
use super::types::Types;
use crate::error::HeapError;
use crate::heap::Heap;
use crate::persist::{Word, place_of};
use crate::tx::Tx;
use lode_layout::{PoolOffset, TypeId};
use lode_pmem::Medium;
use std::fmt;
use std::marker::PhantomData;

/// A structure of objects that a field owns.
pub trait Structure: 'static {
    /// A hash of its name, with the names of its parameters.
    const NAME: u64;
    /// Number of its type on the medium. It follows from all that the structure holds.
    const TYPE_NUMBER: u64;
    /// Type number of its root object.
    const ROOT_TYPE: u64;

    /// Adds the type of the field, and all to which it leads, to those of a pool.
    fn describe(types: &mut Types) -> TypeId;

    /// Frees all objects of the structure whose root object is at `root`. The word that led there is locked, and null by now.
    /// Each object is locked before it is read, so that a transaction that changes the structure at the same time conflicts.
    ///
    /// # Errors
    /// [`HeapError::Conflict`]; [`HeapError::Corrupt`] and [`HeapError::NoObject`] when the structure is damaged. The transaction can't
    /// commit after an error.
    fn free(tx: &dyn FreeingTx, root: PoolOffset) -> Result<(), HeapError>;
}

/// A word in the pool that owns a structure, or is null.
#[repr(transparent)]
pub struct StructureWord<S, B> {
    word: Word,
    structure: PhantomData<fn() -> (S, B)>,
}

impl<S, B> StructureWord<S, B> {
    /// Makes a null word.
    pub const fn null() -> StructureWord<S, B> {
        StructureWord { word: Word::new(0), structure: PhantomData }
    }

    /// Returns the word as that of another structure, which has the same objects.
    pub fn recast<New>(self) -> StructureWord<New, B> {
        StructureWord { word: self.word, structure: PhantomData }
    }

    pub(crate) fn word(&self) -> &Word {
        &self.word
    }
}

impl<S: Structure, B: Brand> StructureWord<S, B> {
    /// Returns the offset of the root object as the transaction sees it. The read is validated.
    ///
    /// # Errors
    /// [`HeapError::Conflict`], [`HeapError::OtherPool`].
    #[inline]
    pub fn get<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<PoolOffset, HeapError> {
        let raw = tx.raw();
        raw.read8(place_of(raw.heap().memory(), &self.word)?).map(PoolOffset::new)
    }

    /// Locks the word, and returns the offset of the root object.
    ///
    /// # Errors
    /// As [`get`](StructureWord::get).
    pub fn lock<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<PoolOffset, HeapError> {
        let raw = tx.raw();
        let at = place_of(raw.heap().memory(), &self.word)?;
        raw.lock(at)?;
        Ok(PoolOffset::new(raw.load8(at)))
    }

    /// Makes the null word, which is locked, own the structure whose root object is at `root`.
    ///
    /// # Errors
    /// As [`get`](StructureWord::get).
    pub fn set<M: Medium>(&self, tx: &TypedTx<'_, B, M>, root: PoolOffset) -> Result<(), HeapError> {
        let raw = tx.raw();
        raw.store8(place_of(raw.heap().memory(), &self.word)?, root.get());
        Ok(())
    }

    /// Frees the structure, and makes the word null.
    ///
    /// # Errors
    /// As [`Structure::free`] and [`get`](StructureWord::get).
    pub fn free<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<(), HeapError> {
        let root = self.lock(tx)?;
        if root.is_null() {
            return Ok(());
        }
        self.set(tx, PoolOffset::NULL)?;
        S::free(tx.raw(), root).inspect_err(|_| tx.raw().set_rollback_only())
    }

    /// Returns the result of a `read` of the structure during which the word was not changed. `read` gets the offset of the root
    /// object as it was last committed.
    ///
    /// # Errors
    /// [`HeapError::OtherPool`].
    pub fn load<'g, R, M: Medium>(
        &self,
        guard: &'g Guard<'_, B, M>,
        mut read: impl FnMut(&'g Heap<M>, PoolOffset) -> R,
    ) -> Result<R, HeapError> {
        let at = place_of(guard.memory(), &self.word)?;
        Ok(guard.read_consistent(at, || read(guard.heap(), PoolOffset::new(self.word.load()))))
    }
}

impl<S, B> fmt::Debug for StructureWord<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StructureWord").field(&PoolOffset::new(self.word.load())).finish()
    }
}

/// Returns the untyped transaction, for stores to the objects of structures.
#[inline]
pub fn raw_tx<'t, B: Brand, M: Medium>(tx: &'t TypedTx<'_, B, M>) -> &'t Tx<'t, M> {
    tx.raw()
}
