//! The pool as an operation sees it.

use lode_heap::Tx;
use lode_layout::PoolOffset;
use lode_pmem::{Medium, Readable};
use std::ops::Deref;

/// Loads of words: directly from memory, or overlaid with what a transaction has stored so far.
pub(crate) trait View {
    /// Returns the aligned word at `at`.
    fn load8(&self, at: PoolOffset) -> u64;

    /// Prefetches the line at `at`.
    fn prefetch(&self, at: PoolOffset);

    /// Copies the bytes at `at` to `into`.
    fn read(&self, at: PoolOffset, into: &mut [u8]);

    /// Returns the number of bytes that can be read.
    fn len(&self) -> u64;
}

impl View for Readable {
    #[inline(always)]
    fn load8(&self, at: PoolOffset) -> u64 {
        Readable::load8(self, at)
    }

    #[inline(always)]
    fn prefetch(&self, at: PoolOffset) {
        self.prefetch_load(at);
    }

    fn read(&self, at: PoolOffset, into: &mut [u8]) {
        Readable::read(self, at, into);
    }

    fn len(&self) -> u64 {
        self.deref().len()
    }
}

impl<M: Medium> View for Tx<'_, M> {
    #[inline]
    fn load8(&self, at: PoolOffset) -> u64 {
        Tx::load8(self, at)
    }

    #[inline]
    fn prefetch(&self, at: PoolOffset) {
        self.memory().prefetch_load(at);
    }

    fn read(&self, at: PoolOffset, into: &mut [u8]) {
        Tx::read(self, at, into);
    }

    fn len(&self) -> u64 {
        Deref::deref(self.memory()).len()
    }
}
