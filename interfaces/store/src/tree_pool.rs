//! An open pool with trees, as its transactions and snapshots see it.

use crate::engine::{EngineResult, Medium};
use crate::error::{Error, Result};
use crate::reclaimer::Reclaimer;
use lode_heap::{Heap, Snapshot, Tx};
use lode_index::Trees;
use lode_layout::PoolOffset;
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// An open pool with trees.
pub(crate) trait TreePool: Send + Sync {
    fn heap(&self) -> &Heap<Medium>;

    fn path(&self) -> &Path;

    /// Opens the table of trees as it was last committed.
    fn trees(&self) -> EngineResult<Trees<'_, Medium>>;

    /// Returns what gives the space of the pool's dropped trees back.
    fn reclaimer(&self) -> &Reclaimer;

    /// Returns the root object of the table of trees as the transaction sees it; [`PoolOffset::NULL`] while there is none.
    fn table_in(&self, tx: &Tx<'_, Medium>) -> EngineResult<PoolOffset>;

    /// Returns the root object of the table of trees, which is made if there is none. Returns `None` if there can be none.
    fn table_or_create_in(&self, tx: &Tx<'_, Medium>) -> EngineResult<Option<PoolOffset>>;

    /// Returns the root object of the table of trees as the snapshot sees it; [`PoolOffset::NULL`] if there was none.
    fn table_at(&self, snapshot: &Snapshot<'_, Medium>) -> EngineResult<PoolOffset>;
}

impl dyn TreePool + '_ {
    /// Adds the path to an error.
    pub(crate) fn located(&self, error: impl Into<Error>) -> Error {
        error.into().at(self.path())
    }

    /// Returns the result of an operation of the engine, with the path in its error.
    pub(crate) fn locate<T>(&self, result: EngineResult<T>) -> Result<T> {
        result.map_err(|error| self.located(error))
    }
}

impl fmt::Debug for dyn TreePool + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TreePool").field(&self.path()).finish()
    }
}

/// A reference to an open pool that leads to its heap.
#[derive(Clone, Debug)]
pub(crate) struct HeapRef(pub(crate) Arc<dyn TreePool>);

impl Deref for HeapRef {
    type Target = Heap<Medium>;

    fn deref(&self) -> &Heap<Medium> {
        self.0.heap()
    }
}
