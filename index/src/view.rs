//! The pool as an operation sees it.

use lode_heap::Tx;
use lode_layout::PoolOffset;
use lode_pmem::{Medium, Memory};

/// Loads of words: straight from memory, or with what a transaction has stored so far laid over it.
pub(crate) trait View {
    /// The aligned word at `at`.
    fn load8(&self, at: PoolOffset) -> u64;
}

impl View for Memory {
    #[inline(always)]
    fn load8(&self, at: PoolOffset) -> u64 {
        Memory::load8(self, at)
    }
}

impl<M: Medium> View for Tx<'_, M> {
    #[inline]
    fn load8(&self, at: PoolOffset) -> u64 {
        Tx::load8(self, at)
    }
}
