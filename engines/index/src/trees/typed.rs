//! The table of trees of a pool of typed data: the root object of the pool leads to it, beside the typed root.
//!
//! The first tree makes the table, which stays. So a transaction that found none read a word, and starts again if another one makes
//! the table before it commits.

use super::{Trees, TreesSnapshot};
use crate::error::IndexError;
use crate::tree::Tree;
use lode_heap::{Heap, Snapshot, Tx, trees};
use lode_layout::PoolOffset;
use lode_pmem::Medium;

impl<'h, M: Medium> Trees<'h, M> {
    /// Opens the table of the pool of typed data in `heap`, as it was last committed. A pool without one has no trees.
    ///
    /// # Errors
    /// [`IndexError::Heap`] with [`HeapError::NotTyped`](lode_heap::HeapError::NotTyped) for a pool of other data; as
    /// [`Trees::open`].
    pub fn of_typed(heap: &'h Heap<M>) -> Result<Trees<'h, M>, IndexError> {
        Trees::open(heap, trees::get(heap)?)
    }

    /// Opens the table whose root object is at `table` as the transaction sees it: one that the transaction has made, too.
    ///
    /// # Errors
    /// As [`Tree::open_in`].
    pub fn open_in(heap: &'h Heap<M>, tx: &Tx<'_, M>, table: PoolOffset) -> Result<Trees<'h, M>, IndexError> {
        Ok(Trees { table: Tree::open_in(heap, tx, table)? })
    }

    /// Returns the root object of the table of a pool of typed data as the transaction sees it, for
    /// [`open_in`](Trees::open_in); [`PoolOffset::NULL`] while there is none. The read is validated.
    ///
    /// # Errors
    /// [`IndexError::Heap`].
    pub fn find_typed_in(tx: &Tx<'_, M>) -> Result<PoolOffset, IndexError> {
        Ok(trees::get_in(tx)?)
    }

    /// Returns the root object of the table of a pool of typed data. Makes an empty table if there is none. Returns `None`
    /// while the pool has no typed root.
    ///
    /// # Errors
    /// As [`Tree::create`].
    pub fn find_or_create_typed_in(tx: &Tx<'_, M>) -> Result<Option<PoolOffset>, IndexError> {
        match trees::lock(tx)? {
            Some(table) if table.is_null() => {
                let table = Tree::create(tx)?;
                // A table to which nothing leads would be a leak.
                trees::set(tx, table).inspect_err(|_| tx.set_rollback_only())?;
                Ok(Some(table))
            }
            found => Ok(found),
        }
    }
}

impl<'s, 'h, M: Medium> TreesSnapshot<'s, 'h, M> {
    /// Returns the root object of the table of a pool of typed data as the snapshot sees it, for
    /// [`open`](TreesSnapshot::open).
    ///
    /// # Errors
    /// As [`Trees::of_typed`]; [`IndexError::Heap`] with
    /// [`HeapError::SnapshotEnded`](lode_heap::HeapError::SnapshotEnded).
    pub fn find_typed(snapshot: &'s Snapshot<'h, M>) -> Result<PoolOffset, IndexError> {
        Ok(trees::get_at(snapshot)?)
    }
}
