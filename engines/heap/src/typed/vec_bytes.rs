//! Vectors as bytes, whatever the type of their elements.

use super::brand::Brand;
use super::elements::{ElementForm, Elements, corrupt_buffer};
use super::guard::Guard;
use super::vec::PVec;
use crate::bits::{Bits, bits_from};
use crate::error::HeapError;
use crate::persist::{offset_of, place_of};
use crate::read_set::Reread;
use crate::tx::Tx;
use lode_layout::{PoolOffset, WORD};
use lode_pmem::Medium;
use zerocopy::IntoBytes;

/// Number of elements for which the first buffer has room.
const CAPACITY_MIN: u64 = 4;

impl<T, B: Brand> PVec<T, B> {
    /// Returns the offset of the vector.
    #[inline]
    pub(super) fn at<M: Medium>(&self, tx: &Tx<'_, M>) -> Result<PoolOffset, HeapError> {
        place_of(tx.heap().memory(), &self.buffer)
    }

    /// Locks the vector, and returns its elements as the transaction sees them.
    #[inline]
    pub(crate) fn lock<M: Medium>(&self, tx: &Tx<'_, M>) -> Result<Elements, HeapError> {
        let at = self.at(tx)?;
        tx.lock(at)?;
        let words: [u64; 2] = tx.words(at);
        Ok(Elements::read(|word| words[word as usize]))
    }

    pub(super) fn committed(&self) -> Elements {
        Elements::read(|word| [&self.buffer, &self.len][word as usize].load())
    }

    /// Returns the bits of element number `index`, in the `form`, as the transaction sees them; `None` beyond the end. The read is
    /// validated; it does not depend on other elements.
    pub(crate) fn bits<V: Bits, M: Medium>(
        &self,
        tx: &Tx<'_, M>,
        form: ElementForm,
        index: u64,
    ) -> Result<Option<V>, HeapError> {
        let words = [self.at(tx)?.get(), form.size, index];
        let bytes = tx.read_noted(words, element_bytes, |reread, read| {
            read.is_digest(&element_bytes(reread, read.noted_words()))
        })?;
        Ok(bytes.split_first().map(|(_, element)| bits_from(|into| into.copy_from_slice(element))))
    }

    /// Returns the bits of element number `index` as they were last committed, and their offset; `None` beyond the end.
    pub(crate) fn committed_bits<V: Bits, M: Medium>(
        &self,
        guard: &Guard<'_, B, M>,
        form: ElementForm,
        index: u64,
    ) -> Result<Option<(PoolOffset, V)>, HeapError> {
        guard.copy_consistent(place_of(guard.memory(), &self.buffer)?, |memory| {
            let Elements { buffer, len } = self.committed();
            let at = form.at(buffer, index);
            (index < len).then(|| (at, bits_from(|bytes| memory.read(at, bytes))))
        })
    }

    /// Returns the elements as the transaction sees them, with the bytes of all. The read is validated.
    pub(crate) fn bytes<M: Medium>(
        &self,
        tx: &Tx<'_, M>,
        form: ElementForm,
    ) -> Result<(Elements, Vec<u8>), HeapError> {
        let mut bytes = tx.read_noted([self.at(tx)?.get(), form.size, 0], all_bytes, |reread, read| {
            read.is_digest(&all_bytes(reread, read.noted_words()))
        })?;
        let content = bytes.split_off(2 * WORD as usize);
        let word = |index: u64| bits_from(|into| into.copy_from_slice(&bytes[index as usize * 8..][..8]));
        let elements = Elements::read(word).check(form.size, tx.heap().memory().len())?;
        if elements.len.checked_mul(form.size) != Some(content.len() as u64) {
            return Err(corrupt_buffer(elements.buffer));
        }
        Ok((elements, content))
    }

    /// Returns the elements as they were last committed, with the bytes of all.
    pub(crate) fn committed_bytes<M: Medium>(
        &self,
        guard: &Guard<'_, B, M>,
        form: ElementForm,
    ) -> Result<(Elements, Vec<u8>), HeapError> {
        guard.copy_consistent(place_of(guard.memory(), &self.buffer)?, |memory| {
            let elements = self.committed().check(form.size, memory.len())?;
            let mut bytes = vec![0; (elements.len * form.size) as usize];
            memory.read(elements.buffer, &mut bytes);
            Ok((elements, bytes))
        })?
    }

    /// Stores the bytes of the elements from number `index` on, which the vector has. It is locked.
    pub(crate) fn store<M: Medium>(
        &self,
        tx: &Tx<'_, M>,
        form: ElementForm,
        elements: Elements,
        index: u64,
        bytes: &[u8],
    ) {
        tx.store(form.at(elements.buffer, index), bytes);
    }

    /// Appends `count` elements with these bytes. The vector is locked, and has these elements.
    #[inline]
    pub(crate) fn append<M: Medium>(
        &self,
        tx: &Tx<'_, M>,
        form: ElementForm,
        elements: Elements,
        (count, bytes): (u64, &[u8]),
    ) -> Result<(), HeapError> {
        let Elements { buffer, len } = elements;
        let room = if buffer.is_null() { 0 } else { tx.usable_size(buffer)? / form.size.max(1) };
        if len > room {
            return Err(corrupt_buffer(buffer));
        }
        let wanted = len + count;
        if wanted <= room {
            tx.store(form.at(buffer, len), bytes);
        } else {
            self.grow_buffer(tx, form, elements, (wanted, bytes))?;
        }
        self.store_len(tx, wanted);
        Ok(())
    }

    /// Moves the elements to a buffer with room for `wanted` or more, and puts the bytes `new` after them.
    #[cold]
    fn grow_buffer<M: Medium>(
        &self,
        tx: &Tx<'_, M>,
        form: ElementForm,
        old: Elements,
        (wanted, new): (u64, &[u8]),
    ) -> Result<(), HeapError> {
        let too_large = || HeapError::OutOfSpace { wanted: u64::MAX };
        let room = wanted.max(old.len.saturating_mul(2)).max(CAPACITY_MIN);
        let size = room.checked_mul(form.size.max(1)).ok_or_else(too_large)?;
        let size = usize::try_from(size).map_err(|_| too_large())?;
        let mut content = vec![0u64; size.div_ceil(WORD as usize)];
        let (elements, rest) = content.as_mut_bytes().split_at_mut((old.len * form.size) as usize);
        tx.read(old.buffer, elements);
        rest[..new.len()].copy_from_slice(new);
        let buffer = tx.alloc_with(&content, form.align, form.buffer)?;
        if !old.buffer.is_null() {
            tx.free(old.buffer).inspect_err(|_| tx.set_rollback_only())?;
        }
        tx.store8(offset_of(tx.heap().memory(), &self.buffer), buffer.get());
        Ok(())
    }

    /// Stores the number of elements. The vector is locked.
    #[inline]
    pub(crate) fn store_len<M: Medium>(&self, tx: &Tx<'_, M>, len: u64) {
        tx.store8(offset_of(tx.heap().memory(), &self.len), len);
    }

    /// Frees the buffer of the vector, which is locked and has these elements, and leaves it empty.
    pub(crate) fn free_buffer<M: Medium>(&self, tx: &Tx<'_, M>, elements: Elements) -> Result<(), HeapError> {
        if !elements.buffer.is_null() {
            tx.free(elements.buffer)?;
            tx.store_words(offset_of(tx.heap().memory(), &self.buffer), &[0, 0]);
        }
        Ok(())
    }
}

/// Returns the buffer and the length of the vector at an offset.
fn elements_at(reread: &Reread<'_>, at: PoolOffset) -> Elements {
    Elements::read(|word| reread.load8(at.plus(word * WORD)))
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
