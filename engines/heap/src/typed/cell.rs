//! Reading and storing cells.

use super::brand::Brand;
use super::guard::Guard;
use super::tx::TypedTx;
use super::value::{CellValue, value_at};
use crate::bits::{bits_from, bytes_of};
use crate::error::HeapError;
use crate::persist::{offset_of, place_of};
use crate::ptr::PCell;
use crate::read_set::{Read, Reread};
use lode_pmem::Medium;
use std::fmt;

impl<T: CellValue, B: Brand> PCell<T, B> {
    const SIZE: u64 = size_of::<T::Bits>() as u64;

    /// Returns the value as the transaction sees it. The read is validated: the transaction starts again if another
    /// one changes the cell before this one commits.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction is storing the value, or when the value does not go with what
    /// the transaction has read before. [`HeapError::InvalidValue`] when the bytes are no value.
    ///
    /// # Cost
    /// Three loads and a note of 64 bytes; for values above 8 bytes, also a checksum.
    #[inline]
    pub fn get<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<T, HeapError> {
        let raw = tx.raw();
        let at = place_of(raw.heap().memory(), self)?;
        if Self::IS_SMALL {
            return value_at(|| at, Self::bits_in(raw.read8(at)?));
        }
        let read = |reread: &Reread<'_>| reread.bytes(at, Self::SIZE);
        let bytes = raw.read_validated(at, read, same_bytes, [Self::SIZE, 0, 0])?;
        value_at(|| at, bits_from(|into| into.copy_from_slice(&bytes)))
    }

    /// Returns the value as the transaction sees it, without validation: it may be another one when the transaction
    /// commits, and need not go with its other reads.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when the value is larger than 8 bytes and another transaction is storing it;
    /// [`HeapError::InvalidValue`].
    #[inline]
    pub fn get_unvalidated<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<T, HeapError> {
        let raw = tx.raw();
        let at = place_of(raw.heap().memory(), self)?;
        if Self::IS_SMALL {
            return value_at(|| at, Self::bits_in(raw.load8(at)));
        }
        value_at(|| at, raw.read_stable(at, || bits_from(|bytes| raw.read(at, bytes)))?)
    }

    /// Returns the value as it was last committed. Inside of a transaction use [`get`](PCell::get) instead.
    ///
    /// # Errors
    /// [`HeapError::Fault`] when a value larger than 8 bytes can't be read. A smaller one is loaded as any field of
    /// the object that holds it, and lost memory under such a reference ends the process. [`HeapError::InvalidValue`].
    ///
    /// # Cost
    /// A load for values of up to 8 bytes. Larger ones are copied, and copied again if they changed meanwhile.
    #[inline]
    pub fn load<M: Medium>(&self, guard: &Guard<'_, B, M>) -> Result<T, HeapError> {
        if Self::IS_SMALL {
            return value_at(|| offset_of(guard.memory(), self), Self::bits_in(self.load_word()));
        }
        let at = place_of(guard.memory(), self)?;
        value_at(|| at, guard.copy_consistent(at, |memory| bits_from(|bytes| memory.read(at, bytes)))?)
    }

    /// Stores `value` in the transaction, which has the cell's lock from then on.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction stores to the cell.
    ///
    /// # Cost
    /// The value's bytes, rounded up to 8, and 8 more in the record.
    #[inline]
    pub fn set<M: Medium>(&self, tx: &TypedTx<'_, B, M>, value: T) -> Result<(), HeapError> {
        let raw = tx.raw();
        let at = place_of(raw.heap().memory(), self)?;
        raw.lock(at)?;
        if Self::IS_SMALL {
            raw.store8(at, Self::word_of(value.to_bits()));
            return Ok(());
        }
        raw.store(at, bytes_of(&value.to_bits()));
        Ok(())
    }
}

/// Compares the bytes of a cell, as many as the first number says.
fn same_bytes(reread: &Reread<'_>, read: &mut Read) -> bool {
    read.is_digest(&reread.bytes(read.guard, read.words[0]))
}

impl<T: CellValue, B> fmt::Debug for PCell<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PCell").finish_non_exhaustive()
    }
}
