//! An open snapshot, as its handles, trees and iterators share it.

use crate::entries::{Direction, Scan, take_entries};
use crate::error::{Error, Result};
use crate::key_range::KeyBounds;
use crate::shared::{HeapRef, Medium, Shared};
use lode_heap::OwnedSnapshot;
use lode_index::{Entry, IndexError, NamedTree, TreeSnapshot, TreesSnapshot, Value};
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
    pub(crate) fn new(frozen: Arc<Frozen>, root: PoolOffset, name: &str) -> FrozenTree {
        FrozenTree { frozen, root, name: name.into() }
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

    pub(crate) fn count(&self) -> Result<u64> {
        self.read(|tree| tree.count())
    }

    /// Adds the tree and the path of the store to an error.
    pub(crate) fn located(&self, error: Error) -> Error {
        self.frozen.located(error.in_tree(&self.name))
    }
}

impl Scan for FrozenTree {
    const IS_FIXED: bool = true;

    fn scan(
        &self,
        bounds: KeyBounds,
        direction: Direction,
        take: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<()> {
        self.read(|tree| take_entries(tree.range(bounds), direction, take))
    }

    fn changes(&self) -> u64 {
        0
    }
}
