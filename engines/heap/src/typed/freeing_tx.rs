//! The transaction that frees a structure of another crate, as that crate sees it.

use crate::error::HeapError;
use crate::tx::Tx;
use lode_layout::PoolOffset;
use lode_pmem::Medium;

/// The transaction that frees a structure, on a pool in any medium.
pub trait FreeingTx {
    /// Returns the word at an offset as the transaction sees it.
    fn load8(&self, at: PoolOffset) -> u64;
    /// Stores a word.
    fn store8(&self, at: PoolOffset, value: u64);
    /// Locks an offset, as [`Tx::lock`] does.
    ///
    /// # Errors
    /// [`HeapError::Conflict`].
    fn lock(&self, at: PoolOffset) -> Result<(), HeapError>;
    /// Returns the size and the type number of an object.
    ///
    /// # Errors
    /// [`HeapError::NoObject`], [`HeapError::Corrupt`].
    fn object(&self, at: PoolOffset) -> Result<(u64, u64), HeapError>;
    /// Frees an object.
    ///
    /// # Errors
    /// As [`object`](FreeingTx::object).
    fn free(&self, at: PoolOffset) -> Result<(), HeapError>;
}

impl<M: Medium> FreeingTx for Tx<'_, M> {
    fn load8(&self, at: PoolOffset) -> u64 {
        Tx::load8(self, at)
    }
    fn store8(&self, at: PoolOffset, value: u64) {
        Tx::store8(self, at, value);
    }
    fn lock(&self, at: PoolOffset) -> Result<(), HeapError> {
        Tx::lock(self, at)
    }
    fn object(&self, at: PoolOffset) -> Result<(u64, u64), HeapError> {
        Tx::object(self, at)
    }
    fn free(&self, at: PoolOffset) -> Result<(), HeapError> {
        Tx::free(self, at)
    }
}

/// The kind of an owned structure.
#[derive(Debug)]
pub(crate) struct StructureType {
    /// Type number of its root object.
    pub(crate) root: u64,
    /// Frees it.
    pub(crate) free: fn(&dyn FreeingTx, PoolOffset) -> Result<(), HeapError>,
}
