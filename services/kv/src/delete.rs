//! The deletion of a range of keys, in transactions of bounded size.

use crate::error::KvError;
use crate::store::Store;
use lode_heap::Tx;
use lode_index::Tree;
use lode_pmem::Medium;
use std::ops::Bound;

/// Greatest number of keys of a transaction.
const KEYS_MAX: usize = 1 << 16;
/// Greatest number of bytes of keys of a transaction, apart from its last key.
const KEY_BYTES_MAX: usize = 1 << 20;

/// The keys from one bound to the other.
pub type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A part of the range, which one transaction deletes.
#[derive(Debug, Default)]
struct Part {
    keys: Vec<Vec<u8>>,
    bytes: usize,
}

impl Part {
    fn is_full(&self) -> bool {
        self.keys.len() >= KEYS_MAX || self.bytes >= KEY_BYTES_MAX
    }
}

impl<M: Medium> Store<M> {
    /// Removes the keys in `range`, in ascending order and in transactions of at most 65,536 keys or about 1 MiB of keys. After
    /// each of them `goes_on` is called with the number of keys that it removed, and ends the deletion by `false`. Returns the
    /// number of all keys that were removed. Clears the progress of a load, as [`put`](Store::put) does.
    ///
    /// Keys that other threads put into the range meanwhile are removed or stay.
    ///
    /// # Errors
    /// [`KvError::Index`], with [`HeapError::ReadOnly`](lode_heap::HeapError::ReadOnly) in a pool that was opened for reading, and
    /// at a damaged entry. The keys before stay removed.
    ///
    /// # Durability
    /// What `goes_on` was told is durable. A crash leaves all keys of a transaction or none.
    ///
    /// # Cost
    /// Reads all entries of the range. A drain for each transaction.
    pub fn delete_range(
        &self,
        range: KeyRange,
        mut goes_on: impl FnMut(u64) -> bool,
    ) -> Result<u64, KvError> {
        self.heap().check_writable()?;
        let tree = self.tree()?;
        let (mut from, to) = range;
        let mut deleted = 0;
        loop {
            let (part, removed) = self.heap().run(|tx| self.delete_part(tx, &tree, (&from, &to)))?;
            deleted += removed;
            let is_last = !part.is_full();
            if (removed > 0 && !goes_on(removed)) || is_last {
                return Ok(deleted);
            }
            from = part.keys.into_iter().next_back().map_or(from, Bound::Excluded);
        }
    }

    /// Removes the first keys between two bounds. Returns them, and the number of those that were still there.
    fn delete_part(
        &self,
        tx: &Tx<'_, M>,
        tree: &Tree<'_, M>,
        (from, to): (&Bound<Vec<u8>>, &Bound<Vec<u8>>),
    ) -> Result<(Part, u64), KvError> {
        let mut part = Part::default();
        for entry in tree.range_in(tx, (from.clone(), to.clone()))? {
            let key = entry?.key;
            part.bytes += key.len();
            part.keys.push(key);
            if part.is_full() {
                break;
            }
        }
        let keys: Vec<&[u8]> = part.keys.iter().map(Vec::as_slice).collect();
        let removed = tree.delete_sorted_in(tx, &keys)?;
        if removed > 0 {
            self.clear_load_progress(tx)?;
        }
        Ok((part, removed))
    }
}
