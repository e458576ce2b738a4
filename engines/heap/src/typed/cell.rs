//! Reading and storing cells.

use super::brand::Brand;
use super::guard::Guard;
use super::tx::TypedTx;
use crate::error::HeapError;
use crate::persist::{Persist, bytes_of, offset_of, value_of};
use crate::ptr::PCell;
use crate::read_set::{Read, Reread};
use lode_layout::WORD;
use lode_pmem::Medium;
use std::fmt;

impl<T: Persist<B> + Copy, B: Brand> PCell<T, B> {
    const IS_SMALL: bool = size_of::<T>() <= WORD as usize;

    /// Returns the value as the transaction sees it. The read is validated: the transaction starts again if another
    /// one changes the cell before this one commits.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction is storing the value, or when the value does not go with what
    /// the transaction has read before.
    ///
    /// # Cost
    /// Three loads and a note of 64 bytes; for values above 8 bytes, also a checksum.
    #[inline]
    pub fn get<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<T, HeapError> {
        let raw = tx.raw();
        let at = offset_of(raw.heap().memory(), self);
        if Self::IS_SMALL {
            return Ok(Self::value_in(raw.read8(at)?));
        }
        let bytes = raw.read_validated(
            at,
            |reread| reread.bytes(at, size_of::<T>() as u64),
            same_bytes,
            [size_of::<T>() as u64, 0, 0],
        )?;
        Ok(value_of(|into| into.copy_from_slice(&bytes)))
    }

    /// Returns the value as the transaction sees it, without validation: it may be another one when the transaction
    /// commits, and need not go with its other reads.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when the value is larger than 8 bytes and another transaction is storing it.
    #[inline]
    pub fn get_unvalidated<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<T, HeapError> {
        let raw = tx.raw();
        let at = offset_of(raw.heap().memory(), self);
        if Self::IS_SMALL {
            return Ok(Self::value_in(raw.load8(at)));
        }
        raw.read_stable(at, || value_of(|bytes| raw.read(at, bytes)))
    }

    /// Returns the value as it was last committed. Inside of a transaction use [`get`](PCell::get) instead.
    ///
    /// # Errors
    /// [`HeapError::Fault`] when a value larger than 8 bytes can't be read. A smaller one is loaded as any field of
    /// the object that holds it, and lost memory under such a reference ends the process.
    ///
    /// # Cost
    /// A load for values of up to 8 bytes. Larger ones are copied, and copied again if they changed meanwhile.
    #[inline]
    pub fn load<M: Medium>(&self, guard: &Guard<'_, B, M>) -> Result<T, HeapError> {
        if Self::IS_SMALL {
            return Ok(Self::value_in(self.load_word()));
        }
        let at = offset_of(guard.memory(), self);
        guard.copy_consistent(at, |memory| value_of(|bytes| memory.read(at, bytes)))
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
        let at = offset_of(raw.heap().memory(), self);
        raw.lock(at)?;
        if Self::IS_SMALL {
            raw.store8(at, Self::word_of(value));
            return Ok(());
        }
        let mut value = value;
        raw.store(at, bytes_of::<T, B>(&mut value));
        Ok(())
    }
}

/// Compares the bytes of a cell, as many as the first number says.
fn same_bytes(reread: &Reread<'_>, read: &mut Read) -> bool {
    read.is_digest(&reread.bytes(read.guard, read.words[0]))
}

impl<T: Copy, B> fmt::Debug for PCell<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PCell").finish_non_exhaustive()
    }
}
