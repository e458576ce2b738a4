//! An open snapshot, as its handles, trees and iterators share it.

use crate::engine::{EngineResult, Medium};
use crate::error::{Error, Result};
use crate::tree_pool::{HeapRef, TreePool};
use lode_follow::{Connection, ServedScan};
use lode_heap::OwnedSnapshot;
use lode_index::{Direction, KeyBounds, NamedTree, Scan, TreeSnapshot, TreesSnapshot, Value};
use lode_layout::PoolOffset;
use std::sync::Arc;

/// The trees of a pool as they were at one commit.
#[derive(Debug)]
pub(crate) enum Frozen {
    /// A snapshot of a pool of this process.
    Own {
        /// The pool.
        pool: Arc<dyn TreePool>,
        /// Its snapshot.
        snapshot: OwnedSnapshot<Medium, HeapRef>,
        /// The root object of the table of trees; null if there was none.
        table: PoolOffset,
    },
    /// A snapshot that another process serves.
    Served(Connection),
}

impl Frozen {
    pub(crate) fn open(pool: Arc<dyn TreePool>) -> Result<Frozen> {
        let snapshot =
            OwnedSnapshot::open(HeapRef(Arc::clone(&pool))).map_err(|error| pool.located(error))?;
        let table = pool.locate(pool.table_at(&snapshot.get()))?;
        Ok(Frozen::Own { pool, snapshot, table })
    }

    /// Returns the tree `name`, if there is one.
    pub(crate) fn find(&self, name: &str) -> Result<Option<NamedTree>> {
        match self {
            Frozen::Own { pool, snapshot, table } => {
                pool.locate(in_table(snapshot, *table, |trees| trees.get(name)))
            }
            Frozen::Served(served) => Ok(served.tree(name)?),
        }
    }

    /// Returns the names of all trees.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        match self {
            Frozen::Own { pool, snapshot, table } => {
                pool.locate(in_table(snapshot, *table, |trees| trees.names()))
            }
            Frozen::Served(served) => Ok(served.tree_names()?),
        }
    }

    /// Adds the path of the store to an error.
    pub(crate) fn located(&self, error: Error) -> Error {
        match self {
            Frozen::Own { pool, .. } => pool.located(error),
            Frozen::Served(served) => error.at(served.path()),
        }
    }
}

fn in_table<R>(
    snapshot: &OwnedSnapshot<Medium, HeapRef>,
    table: PoolOffset,
    read: impl FnOnce(&TreesSnapshot<'_, '_, Medium>) -> EngineResult<R>,
) -> EngineResult<R> {
    let snapshot = snapshot.get();
    TreesSnapshot::open(&snapshot, table).and_then(|trees| read(&trees))
}

/// A tree of a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct FrozenTree {
    frozen: Arc<Frozen>,
    root: PoolOffset,
    name: Arc<str>,
}

/// A scan of such a tree.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a scan of an own snapshot allocates nothing")]
pub(crate) enum FrozenScan {
    Own(Scan),
    Served(ServedScan),
}

impl FrozenTree {
    pub(crate) fn open(frozen: Arc<Frozen>, root: PoolOffset, name: &str) -> Result<FrozenTree> {
        let tree = FrozenTree { frozen, root, name: name.into() };
        if let Frozen::Own { snapshot, .. } = &*tree.frozen {
            tree.read_own(snapshot, |_| Ok(()))?;
        }
        Ok(tree)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn read_own<R>(
        &self,
        snapshot: &OwnedSnapshot<Medium, HeapRef>,
        read: impl FnOnce(TreeSnapshot<'_, '_, Medium>) -> EngineResult<R>,
    ) -> Result<R> {
        let snapshot = snapshot.get();
        TreeSnapshot::open(&snapshot, self.root).and_then(read).map_err(|error| self.located(error.into()))
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        match &*self.frozen {
            Frozen::Own { snapshot, .. } => self.read_own(snapshot, |tree| tree.get(key)),
            Frozen::Served(served) => served.get(self.root, key).map_err(|error| self.located(error.into())),
        }
    }

    /// Returns a scan of the entries between the bounds.
    pub(crate) fn scan(&self, bounds: KeyBounds) -> FrozenScan {
        match &*self.frozen {
            Frozen::Own { .. } => FrozenScan::Own(Scan::over(self.root, bounds)),
            Frozen::Served(_) => FrozenScan::Served(ServedScan::over(self.root, bounds)),
        }
    }

    /// Calls `read` with the key and the value of the next entry of one of the tree's scans.
    pub(crate) fn next<T>(
        &self,
        scan: &mut FrozenScan,
        direction: Direction,
        read: impl FnOnce(&[u8], &[u8]) -> Result<T>,
    ) -> Option<Result<T>> {
        let read = match (&*self.frozen, scan) {
            (Frozen::Own { snapshot, .. }, FrozenScan::Own(scan)) => {
                scan.next_at(&snapshot.get(), direction, read)?.map_err(Error::from)
            }
            (Frozen::Served(served), FrozenScan::Served(scan)) => {
                let entry = scan.next(served, direction)?.map_err(Error::from);
                entry.map(|entry| read(&entry.key, entry.value.as_bytes()))
            }
            _ => unreachable!("the scan is one of another snapshot"),
        };
        Some(read.flatten().map_err(|error| self.located(error)))
    }

    pub(crate) fn count(&self) -> Result<u64> {
        match &*self.frozen {
            Frozen::Own { snapshot, .. } => self.read_own(snapshot, |tree| tree.count()),
            Frozen::Served(served) => served.count(self.root).map_err(|error| self.located(error.into())),
        }
    }

    /// Adds the tree and the path of the store to an error.
    pub(crate) fn located(&self, error: Error) -> Error {
        self.frozen.located(error.in_tree(&self.name))
    }
}
