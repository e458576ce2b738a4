//! Locks around persistent data.

use super::brand::Brand;
use super::guard::Guard;
use super::tx::TypedTx;
use crate::error::HeapError;
use crate::persist::{Persist, place_of};
use lode_pmem::Medium;
use std::fmt;
use std::marker::PhantomData;

/// Persistent data that one transaction at a time uses.
///
/// The lock itself is in DRAM only, in the heap's lock table, so it is open after every start.
#[repr(transparent)]
pub struct PMutex<T, B> {
    value: T,
    brand: PhantomData<fn() -> B>,
}

impl<T, B> PMutex<T, B> {
    /// Makes an open lock around `value`.
    pub const fn new(value: T) -> PMutex<T, B> {
        PMutex { value, brand: PhantomData }
    }

    /// Returns the data of a lock that is not in a pool, as a [migration](crate::Migrate) has it.
    pub fn into_value(self) -> T {
        self.value
    }

    pub(crate) fn guarded(&self) -> &T {
        &self.value
    }

    pub(crate) fn guarded_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Persist<B>, B: Brand> PMutex<T, B> {
    /// Takes the lock until the transaction is over, and lends the data that it guards. A lock that the transaction
    /// has already is taken at once.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction keeps the lock. If the closure passes it on, it is started
    /// again with all locks released, so transactions that take locks in inverted order make progress.
    ///
    /// # Cost
    /// One locked instruction.
    #[inline]
    pub fn lock<'t, M: Medium>(&'t self, tx: &'t TypedTx<'_, B, M>) -> Result<&'t T, HeapError> {
        tx.raw().lock(place_of(tx.raw().heap().memory(), self)?)?;
        Ok(&self.value)
    }

    /// Lends the guarded data to `read` outside of a transaction. Returns the result of a call during which no
    /// transaction held the lock. Until then `read` is called again, so it must only read.
    ///
    /// # Errors
    /// The error of that call of `read`; [`HeapError::OtherPool`].
    ///
    /// # Cost
    /// Two loads; readers do not slow each other down. A reader that must not starve beside many writers takes the
    /// [`lock`](PMutex::lock) in a transaction. That costs no drain if it stores nothing.
    #[inline]
    pub fn read<M: Medium, R>(
        &self,
        guard: &Guard<'_, B, M>,
        mut read: impl FnMut(&T) -> Result<R, HeapError>,
    ) -> Result<R, HeapError> {
        guard.read_consistent(place_of(guard.memory(), self)?, || read(&self.value))
    }
}

impl<T, B> fmt::Debug for PMutex<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PMutex").finish_non_exhaustive()
    }
}
