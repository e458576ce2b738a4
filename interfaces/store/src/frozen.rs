//! An open snapshot, as its handles, trees and iterators share it.

use crate::error::{Error, Result};
use crate::key_range::KeyBounds;
use crate::shared::{HeapRef, Medium, Shared};
use lode_heap::OwnedSnapshot;
use lode_index::{Direction, Entry, IndexError, NamedTree, Scan, TreeSnapshot, TreesSnapshot, Value};
use lode_layout::PoolOffset;
use std::sync::Arc;

/// The store as it was at one commit.
#[derive(Debug)]
pub(crate) struct Frozen {
    shared: Arc<Shared>,
    snapshot: OwnedSnapshot<Medium, HeapRef>,
}

impl Frozen {
    pub(crate) fn open(shared: Arc<Shared>) -> Result<Frozen> {
        let snapshot =
            OwnedSnapshot::open(HeapRef(Arc::clone(&shared))).map_err(|error| shared.located(error))?;
        Ok(Frozen { shared, snapshot })
    }

    fn in_table<R>(
        &self,
        read: impl FnOnce(&TreesSnapshot<'_, '_, Medium>) -> std::result::Result<R, IndexError>,
    ) -> Result<R> {
        let snapshot = self.snapshot.get();
        let read = TreesSnapshot::open(&snapshot, self.shared.table()).and_then(|trees| read(&trees));
        read.map_err(|error| self.shared.located(error))
    }

    /// Returns the tree `name`, if there is one.
    pub(crate) fn find(&self, name: &str) -> Result<Option<NamedTree>> {
        self.in_table(|trees| trees.get(name))
    }

    /// Returns the names of all trees.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        self.in_table(|trees| trees.names())
    }

    /// Adds the path of the store to an error.
    pub(crate) fn located(&self, error: Error) -> Error {
        self.shared.located(error)
    }
}

/// A tree of a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct FrozenTree {
    frozen: Arc<Frozen>,
    root: PoolOffset,
    name: Arc<str>,
}

impl FrozenTree {
    pub(crate) fn open(frozen: Arc<Frozen>, root: PoolOffset, name: &str) -> Result<FrozenTree> {
        let tree = FrozenTree { frozen, root, name: name.into() };
        tree.read(|_| Ok(()))?;
        Ok(tree)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn read<R>(
        &self,
        read: impl FnOnce(TreeSnapshot<'_, '_, Medium>) -> std::result::Result<R, IndexError>,
    ) -> Result<R> {
        let snapshot = self.frozen.snapshot.get();
        TreeSnapshot::open(&snapshot, self.root).and_then(read).map_err(|error| self.located(error.into()))
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.read(|tree| tree.get(key))
    }

    /// Returns a scan of the entries between the bounds.
    pub(crate) fn scan(&self, bounds: KeyBounds) -> Scan {
        Scan::over(self.root, bounds)
    }

    /// Returns the next entry of one of the tree's scans.
    pub(crate) fn next(&self, scan: &mut Scan, direction: Direction) -> Option<Result<Entry>> {
        let entry = scan.next_at(&self.frozen.snapshot.get(), direction)?;
        Some(entry.map_err(|error| self.located(error.into())))
    }

    pub(crate) fn count(&self) -> Result<u64> {
        self.read(|tree| tree.count())
    }

    /// Adds the tree and the path of the store to an error.
    pub(crate) fn located(&self, error: Error) -> Error {
        self.frozen.located(error.in_tree(&self.name))
    }
}
