//! Deletions of a transaction that are made together.

use lode_layout::PoolOffset;
use std::ops::Range;

/// Bytes of memory that keys may take: their own, and those of their places.
const BYTES_MAX: usize = 4 << 20;

/// Keys that are to be deleted from one tree.
#[derive(Debug, Default)]
pub(crate) struct DeferredDeletes {
    root: PoolOffset,
    /// The keys, one after the other.
    bytes: Vec<u8>,
    keys: Vec<Range<usize>>,
}

impl DeferredDeletes {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the root object of the tree.
    pub(crate) fn root(&self) -> PoolOffset {
        self.root
    }

    /// Returns true if a key of the tree at `root` may be added.
    pub(crate) fn has_room(&self, root: PoolOffset) -> bool {
        let bytes = self.bytes.len() + self.keys.len() * size_of::<Range<usize>>();
        self.is_empty() || self.root == root && bytes < BYTES_MAX
    }

    /// Adds a key of the tree at `root`, the same for all keys.
    pub(crate) fn push(&mut self, root: PoolOffset, key: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.keys.push(begin..self.bytes.len());
        self.root = root;
    }

    /// Returns the keys, ascending.
    pub(crate) fn sorted_keys(&self) -> Vec<&[u8]> {
        let mut keys: Vec<_> = self.keys.iter().map(|key| &self.bytes[key.clone()]).collect();
        keys.sort_unstable();
        keys
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.bytes.clear();
    }
}
