//! The number of keys in a tree.
//!
//! A tree has several count cells. Each holds the number of keys that were added through it, less those removed. A
//! thread keeps to one cell as long as no other thread holds its lock, so threads do not contend here. The number of
//! keys is the wrapping sum of all cells. The cells are logged as absolute values, under their locks.

use crate::attempt::{Attempt, Retry};
use crate::bugs;
use crate::view::View;
use lode_heap::{HeapError, Tx};
use lode_layout::{LINE, PoolOffset, TREE_CELLS, TREE_CELLS_OFF};
use lode_pmem::{Counter, Medium};
use std::cell::Cell;

thread_local! {
    /// Number of the cell that this thread used last, in any tree.
    static PREFERRED_CELL: Cell<u64> = Cell::new(first_cell());
}

fn first_cell() -> u64 {
    static NEXT: Counter = Counter::new(0);
    NEXT.add(1)
}

fn cell_at(root: PoolOffset, index: u64) -> PoolOffset {
    root.plus(TREE_CELLS_OFF + index % TREE_CELLS * LINE)
}

/// Returns the number of keys. It is exact while no thread adds or removes any.
pub(crate) fn sum(view: &impl View, root: PoolOffset) -> u64 {
    (0..TREE_CELLS).fold(0, |sum, index| sum.wrapping_add(view.load8(cell_at(root, index))))
}

/// Returns the number of keys as the transaction sees it.
pub(crate) fn sum_in<M: Medium>(tx: &Tx<'_, M>, root: PoolOffset) -> Result<u64, HeapError> {
    (0..TREE_CELLS).try_fold(0u64, |sum, index| Ok(sum.wrapping_add(tx.read8(cell_at(root, index))?)))
}

impl<M: Medium, V: View> Attempt<'_, '_, M, V> {
    /// Locks a cell that no other thread uses now.
    #[inline]
    pub(crate) fn lock_cell(&self) -> Result<PoolOffset, Retry> {
        if bugs::CELL_UNLOCKED.is_active() {
            return Ok(cell_at(self.root, 0));
        }
        let preferred = PREFERRED_CELL.get();
        for index in preferred..preferred + TREE_CELLS {
            let cell = cell_at(self.root, index);
            if self.tx.try_lock_unchanged(cell, self.tx.heap().lock_version(cell))? {
                if index != preferred {
                    PREFERRED_CELL.set(index);
                }
                return Ok(cell);
            }
        }
        // If all wait for their sync, the transaction is to see them, or waits for them.
        let cell = cell_at(self.root, preferred);
        match self.tx.lock_unchanged(cell, self.tx.heap().lock_version(cell)) {
            Err(_) if self.tx.locks_reads() => self.tx.lock(cell)?,
            locked => locked?,
        }
        Ok(cell)
    }

    /// Adds `change` to the locked cell: 1 for a key that was added, -1 for one that was removed.
    #[inline]
    pub(crate) fn count(&self, cell: PoolOffset, change: i64) {
        self.tx.store8(cell, self.view.load8(cell).wrapping_add_signed(change));
    }
}
