//! Persistent text.

use super::brand::Brand;
use super::guard::Guard;
use super::tx::TypedTx;
use super::vec::PVec;
use crate::error::HeapError;
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use std::fmt;

/// UTF-8 text that can change. Read and stored by copy; locked and validated like a [`PVec`].
#[repr(transparent)]
pub struct PString<B> {
    bytes: PVec<u8, B>,
}

impl<B> PString<B> {
    /// Makes an empty string. It takes no space of its own.
    pub const fn new() -> PString<B> {
        PString { bytes: PVec::new() }
    }

    pub(crate) fn bytes(&self) -> &PVec<u8, B> {
        &self.bytes
    }
}

impl<B> Default for PString<B> {
    fn default() -> PString<B> {
        PString::new()
    }
}

impl<B: Brand> PString<B> {
    /// Returns the text as the transaction sees it.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction uses the string; [`HeapError::Corrupt`] when it is
    /// damaged.
    pub fn get<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<String, HeapError> {
        self.bytes.to_vec(tx).and_then(|bytes| self.text(bytes))
    }

    /// Returns the text as it was last committed.
    ///
    /// # Errors
    /// [`HeapError::Fault`] when it can't be read; [`HeapError::Corrupt`] when it is damaged.
    pub fn load<M: Medium>(&self, guard: &Guard<'_, B, M>) -> Result<String, HeapError> {
        self.bytes.load_all(guard).and_then(|bytes| self.text(bytes))
    }

    /// Returns the length in bytes as the transaction sees it.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction uses the string.
    pub fn len<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<u64, HeapError> {
        self.bytes.len(tx)
    }

    /// Returns true if the transaction sees an empty text.
    ///
    /// # Errors
    /// As [`len`](PString::len).
    pub fn is_empty<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<bool, HeapError> {
        self.bytes.is_empty(tx)
    }

    /// Replaces the text with `text`.
    ///
    /// # Errors
    /// [`HeapError::OutOfSpace`], with nothing changed; [`HeapError::Conflict`] as [`len`](PString::len).
    pub fn set<M: Medium>(&self, tx: &TypedTx<'_, B, M>, text: &str) -> Result<(), HeapError> {
        let old = self.bytes.lock(tx.raw())?.len;
        self.bytes.truncate(tx, 0)?;
        self.bytes.extend_from_slice(tx, text.as_bytes()).inspect_err(|_| {
            // The text that was cut off is still in its buffer.
            self.bytes.store_len(tx.raw(), old);
        })
    }

    /// Appends `text`.
    ///
    /// # Errors
    /// As [`set`](PString::set).
    pub fn push_str<M: Medium>(&self, tx: &TypedTx<'_, B, M>, text: &str) -> Result<(), HeapError> {
        self.bytes.extend_from_slice(tx, text.as_bytes())
    }

    fn text(&self, bytes: Vec<u8>) -> Result<String, HeapError> {
        let at = PoolOffset::new(self.bytes.buffer().load());
        String::from_utf8(bytes).map_err(|_| HeapError::Corrupt { what: "the text whose buffer", at })
    }
}

impl<B> fmt::Debug for PString<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PString").finish_non_exhaustive()
    }
}
