//! Snapshots, and trees as they show them.

use crate::error::{Error, Kind, Result};
use crate::frozen::{Frozen, FrozenScan, FrozenTree};
use crate::tree_def::{TreeDef, decode_key, decode_value};
use crate::value::Value;
use lode_index::{Direction, KeyBounds, KeyRange, prefix_end};
use lode_layout::{AsKey, AsPrefix, Key, encode_key};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::Arc;

/// All trees of a store as they were at one commit.
///
/// It is owned and `Send`, may be cloned and kept for any time, and no transaction waits for it. It never starts again.
/// While it is open, transactions keep the words that they replace in memory, and freed space is not used again. At the
/// limit of either the oldest snapshot ends: its reads fail with an error that
/// [`is_snapshot_ended`](Error::is_snapshot_ended).
///
/// # Cost
/// Transactions that are about to commit wait while it is opened. A read takes no lock. Those of a snapshot of a
/// [`Follower`](crate::Follower) may be round trips to another process.
#[derive(Clone, Debug)]
pub struct Snapshot {
    frozen: Arc<Frozen>,
}

impl Snapshot {
    pub(crate) fn new(frozen: Frozen) -> Snapshot {
        Snapshot { frozen: Arc::new(frozen) }
    }

    /// Returns a tree.
    ///
    /// # Errors
    /// [`is_no_tree`](Error::is_no_tree), [`is_wrong_type`](Error::is_wrong_type); those of a read.
    pub fn tree<K: Key, V: Value>(&self, def: TreeDef<'_, K, V>) -> Result<ReadTree<K, V>> {
        let missing = || self.frozen.located(Error::new(Kind::NoTree).in_tree(def.name()));
        self.get_tree(def)?.ok_or_else(missing)
    }

    /// Returns a tree, or `None` if there is none of that name.
    ///
    /// # Errors
    /// [`is_wrong_type`](Error::is_wrong_type); those of a read.
    pub fn get_tree<K: Key, V: Value>(&self, def: TreeDef<'_, K, V>) -> Result<Option<ReadTree<K, V>>> {
        let Some(tree) = self.frozen.find(def.name())? else { return Ok(None) };
        def.check(&tree).map_err(|error| self.frozen.located(error))?;
        let tree = FrozenTree::open(Arc::clone(&self.frozen), tree.root, def.name())?;
        Ok(Some(ReadTree { tree, types: PhantomData }))
    }

    /// Returns the names of all trees, sorted.
    ///
    /// # Errors
    /// Those of a read.
    pub fn tree_names(&self) -> Result<Vec<String>> {
        self.frozen.names()
    }
}

/// A tree as a [`Snapshot`] shows it: owned, and `Send`.
///
/// # Errors
/// A read fails with an error that [`is_damage`](Error::is_damage), [`is_malformed`](Error::is_malformed) or
/// [`is_snapshot_ended`](Error::is_snapshot_ended).
pub struct ReadTree<K, V> {
    tree: FrozenTree,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for ReadTree<K, V> {
    fn clone(&self) -> Self {
        ReadTree { tree: self.tree.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for ReadTree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadTree").field(&self.tree.name()).finish()
    }
}

impl<K: Key, V: Value> ReadTree<K, V> {
    /// Returns the value of `key`.
    ///
    /// # Errors
    /// Those of [reads](ReadTree).
    pub fn get(&self, key: impl AsKey<K>) -> Result<Option<V>> {
        let found = self.tree.get(&encode_key(&key))?;
        found.map(|value| decode_value(value)).transpose().map_err(|error| self.tree.located(error))
    }

    /// Returns true if the tree has `key`.
    ///
    /// # Errors
    /// Those of [reads](ReadTree).
    pub fn contains(&self, key: impl AsKey<K>) -> Result<bool> {
        Ok(self.tree.get(&encode_key(&key))?.is_some())
    }

    /// Returns the number of keys.
    ///
    /// # Errors
    /// Those of [reads](ReadTree).
    pub fn count(&self) -> Result<u64> {
        self.tree.count()
    }

    /// Returns the entry of the least key.
    ///
    /// # Errors
    /// Those of [reads](ReadTree).
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.end(Direction::Forward)
    }

    /// Returns the entry of the greatest key.
    ///
    /// # Errors
    /// Those of [reads](ReadTree).
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.end(Direction::Backward)
    }

    fn end(&self, direction: Direction) -> Result<Option<(K, V)>> {
        self.iter().next_from(direction).transpose()
    }

    /// Returns the entries whose keys lie in `keys`.
    pub fn range(&self, keys: impl KeyRange<K>) -> ReadRange<K, V> {
        self.between(keys.bounds())
    }

    /// Returns the entries whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: impl AsPrefix<K>) -> ReadRange<K, V> {
        self.between(prefix_bounds(&prefix))
    }

    /// Returns all entries.
    pub fn iter(&self) -> ReadRange<K, V> {
        self.between((Bound::Unbounded, Bound::Unbounded))
    }

    fn between(&self, bounds: KeyBounds) -> ReadRange<K, V> {
        ReadRange { tree: self.tree.clone(), scan: self.tree.scan(bounds), types: PhantomData }
    }
}

/// Returns the bounds of the keys that begin with `prefix`.
pub(crate) fn prefix_bounds<K>(prefix: &impl AsPrefix<K>) -> KeyBounds {
    let mut bytes = Vec::new();
    prefix.encode_prefix(&mut bytes);
    let end = prefix_end(&bytes).map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(bytes), end)
}

/// The entries of a range of keys of a [`ReadTree`]: owned, and `Send`. Ascending from the front and descending from the
/// back.
///
/// An error that [`is_damage`](Error::is_damage) stands for the keys that one damaged place hid; the next call goes on after
/// them. There are no more entries after an error that [`is_snapshot_ended`](Error::is_snapshot_ended).
pub struct ReadRange<K, V> {
    tree: FrozenTree,
    scan: FrozenScan,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> fmt::Debug for ReadRange<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadRange").field(&self.tree.name()).finish()
    }
}

impl<K: Key, V: Value> ReadRange<K, V> {
    fn next_from(&mut self, direction: Direction) -> Option<Result<(K, V)>> {
        self.tree.next(&mut self.scan, direction, |key, value| Ok((decode_key(key)?, decode_value(value)?)))
    }
}

impl<K: Key, V: Value> Iterator for ReadRange<K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Forward)
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for ReadRange<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Backward)
    }
}
