//! Growable arrays.

use super::brand::Brand;
use super::elements::{ElementForm, Elements};
use super::guard::Guard;
use super::tx::TypedTx;
use super::type_hash;
use super::value::{CellValue, value_at, with_values};
use crate::bits::{bits_from, bytes_of};
use crate::error::HeapError;
use crate::persist::{Word, offset_of};
use crate::read_set::{Read, Reread};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::Medium;
use std::fmt;
use std::marker::PhantomData;

/// An array that grows, in two forms:
///
/// * `PVec<T, B>` of any [`CellValue`]: elements are read and stored by copy, and lie one directly after the other.
/// * `PVec<PBox<T, B>, B>` of any [`Persist`](trait@crate::Persist) type, as structs, strings and vectors: each element is an object
///   of its own, which the vector owns and lends. An element takes 8 bytes beside its object.
///
/// A transaction that changes a vector has its lock until it is over. A transaction that reads an element, the length,
/// or all is validated at its commit. Readers outside of transactions take no lock.
///
/// An empty vector has 16 bytes. Its first element gets a buffer with room for 4, which doubles when it is full.
#[repr(C)]
pub struct PVec<T, B> {
    pub(super) buffer: Word,
    pub(super) len: Word,
    element: PhantomData<fn() -> (T, B)>,
}

impl<T, B> PVec<T, B> {
    /// Makes an empty vector. It takes no space of its own.
    pub const fn new() -> PVec<T, B> {
        PVec { buffer: Word::new(0), len: Word::new(0), element: PhantomData }
    }

    pub(crate) fn buffer(&self) -> &Word {
        &self.buffer
    }
}

impl<T, B> Default for PVec<T, B> {
    fn default() -> PVec<T, B> {
        PVec::new()
    }
}

impl<T, B: Brand> PVec<T, B> {
    /// Returns the number of elements as the transaction sees it. The read is validated.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction is changing the vector, or when the number does not go with
    /// what the transaction has read before.
    pub fn len<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<u64, HeapError> {
        let raw = tx.raw();
        let at = self.at(raw)?;
        for round in 0.. {
            let version = raw.read_version(at)?;
            let Elements { len, .. } = Elements::read(|word| raw.load8(at.plus(word * WORD)));
            if raw.note_read(version, Read { guard: at, words: [len, 0, 0, 0, 0] }, is_same_len)? {
                return Ok(len);
            }
            raw.heap().medium().relax(round);
        }
        unreachable!("the loop ends with the length or a conflict")
    }

    /// Returns true if the transaction sees no elements.
    ///
    /// # Errors
    /// As [`len`](PVec::len).
    pub fn is_empty<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<bool, HeapError> {
        self.len(tx).map(|len| len == 0)
    }

    /// Returns the number of elements as it was last committed.
    ///
    /// # Panics
    /// Panics if the guard is one of another pool.
    pub fn load_len<M: Medium>(&self, guard: &Guard<'_, B, M>) -> u64 {
        guard.read_consistent(guard.place_of(&self.buffer), || self.committed().len)
    }
}

impl<T: CellValue, B: Brand> PVec<T, B> {
    pub(crate) const FORM: ElementForm = ElementForm {
        size: size_of::<T::Bits>() as u64,
        align: align_of::<T::Bits>() as u64,
        buffer: with_values::<T>(type_hash::of_name("PVec buffer")),
    };

    /// Returns the vector with the same bytes as elements of another type, for the [migration](crate::Migrate) of the object that
    /// has it: an enum that got a variant more is such a type. Elements whose bytes are no value of it are errors where they are
    /// read, after the migration.
    pub fn recast<New: CellValue>(self) -> PVec<New, B> {
        const { assert!(size_of::<T::Bits>() == size_of::<New::Bits>(), "elements of another size") };
        PVec { buffer: self.buffer, len: self.len, element: PhantomData }
    }

    /// Returns element number `index` as the transaction sees it; `None` beyond the end. The read is validated; it does
    /// not depend on other elements.
    ///
    /// # Errors
    /// As [`len`](PVec::len), and [`HeapError::InvalidValue`] when its bytes are no value.
    pub fn get<M: Medium>(&self, tx: &TypedTx<'_, B, M>, index: u64) -> Result<Option<T>, HeapError> {
        let raw = tx.raw();
        let bits = self.bits(raw, Self::FORM, index)?;
        // The place is that of now: the elements may have moved since the read, which does not depend on it.
        let at = || {
            let buffer = raw.load8(offset_of(raw.heap().memory(), &self.buffer));
            Self::FORM.at(PoolOffset::new(buffer), index)
        };
        bits.map(|bits| value_at(at, bits)).transpose()
    }

    /// Stores element number `index`. Returns false if it lies beyond the end.
    ///
    /// # Errors
    /// As [`len`](PVec::len).
    pub fn set<M: Medium>(&self, tx: &TypedTx<'_, B, M>, index: u64, value: T) -> Result<bool, HeapError> {
        let elements = self.lock(tx.raw())?;
        if index < elements.len {
            // A store beyond the buffer would reach another object.
            elements.check_room(tx.raw(), Self::FORM.size)?;
            self.store(tx.raw(), Self::FORM, elements, index, bytes_of(&value.to_bits()));
        }
        Ok(index < elements.len)
    }

    /// Appends an element.
    ///
    /// # Errors
    /// As [`extend_from_slice`](PVec::extend_from_slice).
    ///
    /// # Cost
    /// The element's bytes and 24 more in the record; now and then those of a buffer twice as large.
    pub fn push<M: Medium>(&self, tx: &TypedTx<'_, B, M>, value: T) -> Result<(), HeapError> {
        let elements = self.lock(tx.raw())?;
        self.append(tx.raw(), Self::FORM, elements, (1, bytes_of(&value.to_bits())))
    }

    /// Appends elements.
    ///
    /// # Errors
    /// [`HeapError::OutOfSpace`], with nothing changed; [`HeapError::Conflict`] as [`len`](PVec::len).
    pub fn extend_from_slice<M: Medium>(
        &self,
        tx: &TypedTx<'_, B, M>,
        values: &[T],
    ) -> Result<(), HeapError> {
        if values.is_empty() {
            // A vector that never held an element has no buffer to store to.
            return Ok(());
        }
        let elements = self.lock(tx.raw())?;
        let mut new = Vec::with_capacity(size_of_val(values));
        for value in values {
            new.extend_from_slice(bytes_of(&value.to_bits()));
        }
        self.append(tx.raw(), Self::FORM, elements, (values.len() as u64, &new))
    }

    /// Removes the last element and returns it.
    ///
    /// # Errors
    /// As [`get`](PVec::get).
    pub fn pop<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<Option<T>, HeapError> {
        // Takes the lock before the read, which then needs no validation.
        let Some(last) = self.lock(tx.raw())?.len.checked_sub(1) else { return Ok(None) };
        let value = self.get(tx, last)?;
        self.truncate(tx, last)?;
        Ok(value)
    }

    /// Removes the elements from number `len` on, if there are any.
    ///
    /// # Errors
    /// As [`len`](PVec::len).
    pub fn truncate<M: Medium>(&self, tx: &TypedTx<'_, B, M>, len: u64) -> Result<(), HeapError> {
        if len < self.lock(tx.raw())?.len {
            self.store_len(tx.raw(), len);
        }
        Ok(())
    }

    /// Removes all elements and frees their space.
    ///
    /// # Errors
    /// As [`len`](PVec::len), and [`HeapError::NoObject`] when the vector is damaged.
    pub fn clear<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<(), HeapError> {
        let elements = self.lock(tx.raw())?;
        self.free_buffer(tx.raw(), elements)
    }

    /// Returns all elements as the transaction sees them. The read is validated.
    ///
    /// # Errors
    /// As [`get`](PVec::get), and [`HeapError::Corrupt`] when the length is damaged.
    pub fn to_vec<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<Vec<T>, HeapError> {
        let (elements, bytes) = self.bytes(tx.raw(), Self::FORM)?;
        Self::values(elements, &bytes)
    }

    /// Returns all elements as they were last committed.
    ///
    /// # Errors
    /// [`HeapError::Fault`] when they can't be read, [`HeapError::Corrupt`] when the length is damaged,
    /// [`HeapError::InvalidValue`] when the bytes of one are no value.
    pub fn load_all<M: Medium>(&self, guard: &Guard<'_, B, M>) -> Result<Vec<T>, HeapError> {
        let (elements, bytes) = self.committed_bytes(guard, Self::FORM)?;
        Self::values(elements, &bytes)
    }

    /// Returns element number `index` as it was last committed; `None` beyond the end.
    ///
    /// # Errors
    /// [`HeapError::Fault`] when it can't be read, [`HeapError::InvalidValue`] when its bytes are no value.
    pub fn load<M: Medium>(&self, guard: &Guard<'_, B, M>, index: u64) -> Result<Option<T>, HeapError> {
        let read = self.committed_bits(guard, Self::FORM, index)?;
        read.map(|(at, bits)| value_at(|| at, bits)).transpose()
    }

    /// Returns the values of the elements with these bytes.
    fn values(elements: Elements, bytes: &[u8]) -> Result<Vec<T>, HeapError> {
        let size = size_of::<T::Bits>();
        let part = |index: u64| &bytes[index as usize * size..][..size];
        let bits = |index| bits_from(|into| into.copy_from_slice(part(index)));
        let at = |index| Self::FORM.at(elements.buffer, index);
        (0..elements.len).map(|index| value_at(|| at(index), bits(index))).collect()
    }
}

fn is_same_len(reread: &Reread<'_>, read: &mut Read) -> bool {
    Elements::read(|word| reread.load8(read.guard.plus(word * WORD))).len == read.words[0]
}

impl<T, B> fmt::Debug for PVec<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PVec").finish_non_exhaustive()
    }
}
