//! The elements of a vector: their buffer, their number and their form.

use crate::error::HeapError;
use crate::tx::Tx;
use lode_layout::PoolOffset;
use lode_pmem::Medium;

/// The buffer of a vector's elements, and their number.
#[derive(Clone, Copy)]
pub(crate) struct Elements {
    pub(crate) buffer: PoolOffset,
    pub(crate) len: u64,
}

impl Elements {
    /// Returns the elements that `load` finds in the words with these indexes.
    pub(crate) fn read(load: impl Fn(u64) -> u64) -> Elements {
        let [buffer, len] = [0, 1].map(load);
        // A vector that was freed with its owner keeps its length, and has no buffer.
        Elements { buffer: PoolOffset::new(buffer), len: if buffer == 0 { 0 } else { len } }
    }

    /// Returns an error if the buffer has no room for so many elements of `size` bytes, as the transaction sees it.
    pub(crate) fn check_room<M: Medium>(self, tx: &Tx<'_, M>, size: u64) -> Result<(), HeapError> {
        let room = if self.buffer.is_null() { 0 } else { tx.usable_size(self.buffer)? / size.max(1) };
        if self.len <= room { Ok(()) } else { Err(corrupt_buffer(self.buffer)) }
    }

    /// Returns an error if so many elements of `size` bytes can't lie in a pool of `pool_len` bytes. A damaged length must not
    /// exhaust memory.
    pub(super) fn check(self, size: u64, pool_len: u64) -> Result<Elements, HeapError> {
        // Elements without bytes, too, are no more than the pool has bytes.
        let end = self.len.checked_mul(size.max(1)).and_then(|bytes| self.buffer.get().checked_add(bytes));
        let fits = end.is_some_and(|end| end <= pool_len);
        if fits { Ok(self) } else { Err(corrupt_buffer(self.buffer)) }
    }
}

/// The form of the elements of a vector.
#[derive(Clone, Copy)]
pub(crate) struct ElementForm {
    /// Size in bytes.
    pub(crate) size: u64,
    /// Alignment in bytes.
    pub(crate) align: u64,
    /// Type number of the buffer.
    pub(crate) buffer: u64,
}

impl ElementForm {
    pub(crate) fn at(self, buffer: PoolOffset, index: u64) -> PoolOffset {
        buffer.plus(index.wrapping_mul(self.size))
    }
}

/// Returns the error for a length that does not go with the buffer.
pub(crate) fn corrupt_buffer(at: PoolOffset) -> HeapError {
    HeapError::Corrupt { what: "the vector whose buffer", at }
}
