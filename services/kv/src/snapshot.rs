//! A store at one commit.

use crate::error::KvError;
use crate::store::Store;
use lode_heap::Snapshot;
use lode_index::{TreeSnapshot, Value};
use lode_layout::PoolOffset;
use lode_pmem::Medium;

/// A [`Store`] as it was at one commit. It can be kept for any time, and read in any thread; no transaction waits for it.
#[derive(Debug)]
pub struct StoreSnapshot<'s, M: Medium> {
    snapshot: Snapshot<'s, M>,
    root: PoolOffset,
}

impl<M: Medium> Store<M> {
    /// Opens a snapshot: all changes that have returned, and none that is made later.
    ///
    /// # Errors
    /// [`KvError::Index`], as [`Heap::snapshot`](lode_heap::Heap::snapshot).
    ///
    /// # Cost
    /// No drain. Changes made later keep in memory what they replace, as long as the snapshot is open; see [`Snapshot`].
    pub fn snapshot(&self) -> Result<StoreSnapshot<'_, M>, KvError> {
        let snapshot = self.heap().snapshot()?;
        let root = snapshot.root()?;
        Ok(StoreSnapshot { snapshot, root })
    }
}

impl<'s, M: Medium> StoreSnapshot<'s, M> {
    /// Returns the tree, for lookups and scans.
    ///
    /// # Errors
    /// [`KvError::Index`] with [`HeapError::SnapshotEnded`](lode_heap::HeapError::SnapshotEnded), or if the tree is
    /// damaged.
    pub fn tree(&self) -> Result<TreeSnapshot<'_, 's, M>, KvError> {
        Ok(TreeSnapshot::open(&self.snapshot, self.root)?)
    }

    /// Returns a copy of the value of `key`. `None` is not proved, as for [`Store::get`].
    ///
    /// # Errors
    /// [`KvError::Index`], as [`TreeSnapshot::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.tree()?.get(key)?.map(Value::into_vec))
    }
}
