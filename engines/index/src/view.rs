//! The pool as an operation sees it.

use lode_heap::{Heap, SnapshotView, Tx};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::{Medium, Readable};
use std::ops::Deref;

/// Loads of words: directly from memory, overlaid with what a transaction has stored so far, or as they were when a
/// snapshot was opened.
pub(crate) trait View {
    /// True if the view shows one moment. A tree that does not look sound is damaged then: no writer is at work.
    const IS_FIXED: bool = false;

    /// Returns the aligned word at `at`.
    fn load8(&self, at: PoolOffset) -> u64;

    /// Loads the words from `at` on, each as [`load8`](View::load8) does.
    #[inline]
    fn load_words(&self, at: PoolOffset, words: &mut [u64]) {
        for (index, word) in (0..).zip(words) {
            *word = self.load8(at.plus(index * WORD));
        }
    }

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

    fn load_words(&self, at: PoolOffset, words: &mut [u64]) {
        Tx::load_words(self, at, words);
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

impl View for SnapshotView<'_> {
    const IS_FIXED: bool = true;

    #[inline]
    fn load8(&self, at: PoolOffset) -> u64 {
        SnapshotView::load8(self, at)
    }

    #[inline]
    fn load_words(&self, at: PoolOffset, words: &mut [u64]) {
        SnapshotView::load_words(self, at, words);
    }

    #[inline]
    fn prefetch(&self, at: PoolOffset) {
        self.memory().prefetch_load(at);
    }

    fn read(&self, at: PoolOffset, into: &mut [u8]) {
        SnapshotView::read(self, at, into);
    }

    fn len(&self) -> u64 {
        Deref::deref(self.memory()).len()
    }
}

/// The pool as a scan sees it.
pub(crate) trait ScanView<M: Medium>: View {
    /// Returns the pool's bytes.
    fn memory(&self) -> &Readable;

    /// Returns the transaction that the scan is a part of.
    fn tx(&self) -> Option<&Tx<'_, M>>;
}

impl<M: Medium> ScanView<M> for Readable {
    #[inline(always)]
    fn memory(&self) -> &Readable {
        self
    }

    #[inline(always)]
    fn tx(&self) -> Option<&Tx<'_, M>> {
        None
    }
}

impl<M: Medium> ScanView<M> for Tx<'_, M> {
    fn memory(&self) -> &Readable {
        Tx::memory(self)
    }

    fn tx(&self) -> Option<&Tx<'_, M>> {
        Some(self)
    }
}

impl<M: Medium> ScanView<M> for SnapshotView<'_> {
    fn memory(&self) -> &Readable {
        SnapshotView::memory(self)
    }

    fn tx(&self) -> Option<&Tx<'_, M>> {
        None
    }
}

/// The heap of a scan, and what the scan sees of it.
#[derive(Debug)]
pub(crate) struct Source<'a, M: Medium, V> {
    pub(crate) heap: &'a Heap<M>,
    pub(crate) view: &'a V,
}

impl<M: Medium, V> Clone for Source<'_, M, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium, V> Copy for Source<'_, M, V> {}
