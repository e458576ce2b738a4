//! Growable arrays.

use super::brand::Brand;
use super::guard::Guard;
use super::tx::TypedTx;
use super::type_hash;
use super::value::{CellValue, value_at, with_values};
use crate::bits::{bits_from, bytes_of};
use crate::error::HeapError;
use crate::persist::{Word, offset_of, place_of};
use crate::read_set::{Read, Reread};
use crate::tx::Tx;
use lode_layout::{PoolOffset, WORD};
use lode_pmem::Medium;
use std::fmt;
use std::marker::PhantomData;

/// Number of elements for which the first buffer has room.
const CAPACITY_MIN: u64 = 4;

/// An array that grows. Its elements are any [`CellValue`], read and stored by copy, one directly after the other.
///
/// A transaction that changes a vector has its lock until it is over. A transaction that reads an element, the length,
/// or all is validated at its commit. Readers outside of transactions take no lock.
#[repr(C)]
pub struct PVec<T, B> {
    buffer: Word,
    len: Word,
    element: PhantomData<fn() -> (T, B)>,
}

/// The buffer of a vector's elements, and their number.
#[derive(Clone, Copy)]
struct Elements {
    buffer: PoolOffset,
    len: u64,
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

impl<T: CellValue, B: Brand> PVec<T, B> {
    const SIZE: u64 = size_of::<T::Bits>() as u64;
    pub(crate) const BUFFER_TYPE: u64 = with_values::<T>(type_hash::of_name("PVec buffer"));

    /// Returns the vector with the same bytes as elements of another type, for the [migration](crate::Migrate) of the object that
    /// has it: an enum that got a variant more is such a type. Elements whose bytes are no value of it are errors where they are
    /// read, after the migration.
    pub fn recast<New: CellValue>(self) -> PVec<New, B> {
        const { assert!(size_of::<T::Bits>() == size_of::<New::Bits>(), "elements of another size") };
        PVec { buffer: self.buffer, len: self.len, element: PhantomData }
    }

    /// Returns the offset of the vector.
    fn at<M: Medium>(&self, tx: &Tx<'_, M>) -> Result<PoolOffset, HeapError> {
        place_of(tx.heap().memory(), &self.buffer)
    }

    /// Locks the vector, and returns its elements as the transaction sees them.
    fn elements<M: Medium>(&self, tx: &Tx<'_, M>) -> Result<Elements, HeapError> {
        let at = self.at(tx)?;
        tx.lock(at)?;
        let [buffer, len] = [at, at.plus(WORD)].map(|at| tx.load8(at));
        let buffer = PoolOffset::new(buffer);
        // A vector that was freed with its owner keeps its length, and has no buffer.
        Ok(Elements { buffer, len: if buffer.is_null() { 0 } else { len } })
    }

    fn element(buffer: PoolOffset, index: u64) -> PoolOffset {
        buffer.plus(index.wrapping_mul(Self::SIZE))
    }

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
            let [buffer, len] = [at, at.plus(WORD)].map(|at| raw.load8(at));
            let len = if PoolOffset::new(buffer).is_null() { 0 } else { len };
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

    /// Returns element number `index` as the transaction sees it; `None` beyond the end. The read is validated; it does
    /// not depend on other elements.
    ///
    /// # Errors
    /// As [`len`](PVec::len), and [`HeapError::InvalidValue`] when its bytes are no value.
    pub fn get<M: Medium>(&self, tx: &TypedTx<'_, B, M>, index: u64) -> Result<Option<T>, HeapError> {
        let vector = self.at(tx.raw())?;
        let bytes =
            tx.raw().read_noted([vector.get(), Self::SIZE, index], element_bytes, |reread, read| {
                read.is_digest(&element_bytes(reread, read.noted_words()))
            })?;
        let bits = bytes.split_first().map(|(_, element)| bits_from(|into| into.copy_from_slice(element)));
        // The place is that of now: the elements may have moved since the read, which does not depend on it.
        let at = || {
            let buffer = tx.raw().load8(vector);
            Self::element(PoolOffset::new(buffer), index)
        };
        bits.map(|bits| value_at(at, bits)).transpose()
    }

    /// Stores element number `index`. Returns false if it lies beyond the end.
    ///
    /// # Errors
    /// As [`len`](PVec::len).
    pub fn set<M: Medium>(&self, tx: &TypedTx<'_, B, M>, index: u64, value: T) -> Result<bool, HeapError> {
        let Elements { buffer, len } = self.elements(tx.raw())?;
        if index < len {
            tx.raw().store(Self::element(buffer, index), bytes_of(&value.to_bits()));
        }
        Ok(index < len)
    }

    /// Appends an element.
    ///
    /// # Errors
    /// As [`extend_from_slice`](PVec::extend_from_slice).
    ///
    /// # Cost
    /// The element's bytes and 24 more in the record; now and then those of a buffer twice as large.
    pub fn push<M: Medium>(&self, tx: &TypedTx<'_, B, M>, value: T) -> Result<(), HeapError> {
        self.extend_from_slice(tx, &[value])
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
        let raw = tx.raw();
        let Elements { buffer, len } = self.elements(raw)?;
        let room = if buffer.is_null() { 0 } else { raw.usable_size(buffer)? / Self::SIZE.max(1) };
        if len > room {
            return Err(corrupt_buffer(buffer));
        }
        let wanted = len + values.len() as u64;
        let mut new = Vec::with_capacity(size_of_val(values));
        for value in values {
            new.extend_from_slice(bytes_of(&value.to_bits()));
        }
        if wanted <= room {
            raw.store(Self::element(buffer, len), &new);
        } else {
            self.grow_buffer(raw, Elements { buffer, len }, wanted, &new)?;
        }
        raw.store8(self.at(raw)?.plus(WORD), wanted);
        Ok(())
    }

    /// Moves the elements to a buffer with room for `wanted` or more, and puts the bytes `new` after them.
    fn grow_buffer<M: Medium>(
        &self,
        raw: &Tx<'_, M>,
        old: Elements,
        wanted: u64,
        new: &[u8],
    ) -> Result<(), HeapError> {
        let too_large = || HeapError::OutOfSpace { wanted: u64::MAX };
        let room = wanted.max(old.len.saturating_mul(2)).max(CAPACITY_MIN);
        let size = room.checked_mul(Self::SIZE.max(1)).ok_or_else(too_large)?;
        let size = usize::try_from(size).map_err(|_| too_large())?;
        let used = (old.len * Self::SIZE) as usize;
        let mut content = vec![0; used];
        raw.read(old.buffer, &mut content);
        content.extend_from_slice(new);
        content.resize(size, 0);
        let buffer = raw.alloc_with_bytes(&content, align_of::<T::Bits>() as u64, Self::BUFFER_TYPE)?;
        if !old.buffer.is_null() {
            raw.free(old.buffer).inspect_err(|_| raw.set_rollback_only())?;
        }
        raw.store8(self.at(raw)?, buffer.get());
        Ok(())
    }

    /// Removes the last element and returns it.
    ///
    /// # Errors
    /// As [`get`](PVec::get).
    pub fn pop<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<Option<T>, HeapError> {
        // Takes the lock before the read, which then needs no validation.
        let Some(last) = self.lock_len(tx)?.checked_sub(1) else { return Ok(None) };
        let value = self.get(tx, last)?;
        self.truncate(tx, last)?;
        Ok(value)
    }

    /// Removes the elements from number `len` on, if there are any.
    ///
    /// # Errors
    /// As [`len`](PVec::len).
    pub fn truncate<M: Medium>(&self, tx: &TypedTx<'_, B, M>, len: u64) -> Result<(), HeapError> {
        let raw = tx.raw();
        let elements = self.elements(raw)?;
        if len < elements.len {
            raw.store8(self.at(raw)?.plus(WORD), len);
        }
        Ok(())
    }

    /// Locks the vector, and returns the number of its elements.
    pub(super) fn lock_len<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<u64, HeapError> {
        self.elements(tx.raw()).map(|elements| elements.len)
    }

    /// Undoes a `truncate` in the same transaction: there were `len` elements before it.
    pub(super) fn restore_len<M: Medium>(&self, tx: &TypedTx<'_, B, M>, len: u64) {
        tx.raw().store8(offset_of(tx.raw().heap().memory(), &self.len), len);
    }

    /// Removes all elements and frees their space.
    ///
    /// # Errors
    /// As [`len`](PVec::len), and [`HeapError::NoObject`] when the vector is damaged.
    pub fn clear<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<(), HeapError> {
        let raw = tx.raw();
        let elements = self.elements(raw)?;
        if !elements.buffer.is_null() {
            raw.free(elements.buffer)?;
            raw.store_words(self.at(raw)?, &[0, 0]);
        }
        Ok(())
    }

    /// Returns all elements as the transaction sees them. The read is validated.
    ///
    /// # Errors
    /// As [`get`](PVec::get), and [`HeapError::Corrupt`] when the length is damaged.
    pub fn to_vec<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<Vec<T>, HeapError> {
        let bytes =
            tx.raw().read_noted([self.at(tx.raw())?.get(), Self::SIZE, 0], all_bytes, |reread, read| {
                read.is_digest(&all_bytes(reread, read.noted_words()))
            })?;
        let (words, elements) = bytes.split_at(2 * WORD as usize);
        let [buffer, len] =
            [0, 1].map(|word| bits_from::<u64>(|into| into.copy_from_slice(&words[word * 8..][..8])));
        self.check(tx.raw().heap().memory().len(), PoolOffset::new(buffer), len)?;
        if len.checked_mul(Self::SIZE) != Some(elements.len() as u64) {
            return Err(corrupt_buffer(PoolOffset::new(buffer)));
        }
        Self::values(PoolOffset::new(buffer), elements, len)
    }

    /// Returns all elements as they were last committed.
    ///
    /// # Errors
    /// [`HeapError::Fault`] when they can't be read, [`HeapError::Corrupt`] when the length is damaged,
    /// [`HeapError::InvalidValue`] when the bytes of one are no value.
    pub fn load_all<M: Medium>(&self, guard: &Guard<'_, B, M>) -> Result<Vec<T>, HeapError> {
        let read = guard.copy_consistent(place_of(guard.memory(), &self.buffer)?, |memory| {
            let Elements { buffer, len } = self.committed();
            self.check(memory.len(), buffer, len)?;
            let mut bytes = vec![0; (len * Self::SIZE) as usize];
            memory.read(buffer, &mut bytes);
            Ok::<_, HeapError>((buffer, bytes, len))
        })?;
        let (buffer, bytes, len) = read?;
        Self::values(buffer, &bytes, len)
    }

    /// Returns the number of elements as it was last committed.
    ///
    /// # Panics
    /// Panics if the guard is one of another pool.
    pub fn load_len<M: Medium>(&self, guard: &Guard<'_, B, M>) -> u64 {
        guard.read_consistent(guard.place_of(&self.buffer), || self.committed().len)
    }

    /// Returns element number `index` as it was last committed; `None` beyond the end.
    ///
    /// # Errors
    /// [`HeapError::Fault`] when it can't be read, [`HeapError::InvalidValue`] when its bytes are no value.
    pub fn load<M: Medium>(&self, guard: &Guard<'_, B, M>, index: u64) -> Result<Option<T>, HeapError> {
        let read = guard.copy_consistent(place_of(guard.memory(), &self.buffer)?, |memory| {
            let Elements { buffer, len } = self.committed();
            let at = Self::element(buffer, index);
            (index < len).then(|| (at, bits_from(|bytes| memory.read(at, bytes))))
        })?;
        read.map(|(at, bits)| value_at(|| at, bits)).transpose()
    }

    fn committed(&self) -> Elements {
        let buffer = PoolOffset::new(self.buffer.load());
        Elements { buffer, len: if buffer.is_null() { 0 } else { self.len.load() } }
    }

    /// Returns an error if so many elements can't be there. A damaged length must not exhaust memory.
    fn check(&self, memory_len: u64, buffer: PoolOffset, len: u64) -> Result<(), HeapError> {
        // Elements without bytes, too, are no more than the pool has bytes.
        let end = len.checked_mul(Self::SIZE.max(1)).and_then(|bytes| buffer.get().checked_add(bytes));
        let fits = end.is_some_and(|end| end <= memory_len);
        if fits { Ok(()) } else { Err(corrupt_buffer(buffer)) }
    }

    /// Returns the values of the `len` elements whose bytes lay at `buffer`.
    fn values(buffer: PoolOffset, bytes: &[u8], len: u64) -> Result<Vec<T>, HeapError> {
        let size = size_of::<T::Bits>();
        let part = |index: u64| &bytes[index as usize * size..][..size];
        let bits = |index| bits_from(|into| into.copy_from_slice(part(index)));
        (0..len).map(|index| value_at(|| Self::element(buffer, index), bits(index))).collect()
    }
}

/// Returns the error for a length that does not go with the buffer.
fn corrupt_buffer(at: PoolOffset) -> HeapError {
    HeapError::Corrupt { what: "the vector whose buffer", at }
}

/// Returns the buffer and the length of the vector at an offset.
fn elements_at(reread: &Reread<'_>, at: PoolOffset) -> Elements {
    let buffer = PoolOffset::new(reread.load8(at));
    // A vector that was freed with its owner keeps its length, and has no buffer.
    Elements { buffer, len: if buffer.is_null() { 0 } else { reread.load8(at.plus(WORD)) } }
}

fn is_same_len(reread: &Reread<'_>, read: &mut Read) -> bool {
    elements_at(reread, read.guard).len == read.words[0]
}

/// Returns an element after a byte 1; nothing beyond the end.
fn element_bytes(reread: &Reread<'_>, [at, size, index]: [u64; 3]) -> Vec<u8> {
    let Elements { buffer, len } = elements_at(reread, PoolOffset::new(at));
    if index >= len {
        return Vec::new();
    }
    let mut bytes = vec![1];
    let mut element = vec![0; size as usize];
    reread.read(buffer.plus(index.wrapping_mul(size)), &mut element);
    bytes.extend(element);
    bytes
}

/// Returns the buffer's offset, the length, and all elements; no elements if so many can't be there.
fn all_bytes(reread: &Reread<'_>, [at, size, _]: [u64; 3]) -> Vec<u8> {
    let Elements { buffer, len } = elements_at(reread, PoolOffset::new(at));
    let mut bytes = [buffer.get().to_le_bytes(), len.to_le_bytes()].concat();
    bytes.extend(reread.bytes(buffer, len.saturating_mul(size)));
    bytes
}

impl<T, B> fmt::Debug for PVec<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PVec").finish_non_exhaustive()
    }
}
