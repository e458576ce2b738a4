//! Trees in a transaction.

use crate::changes::Changes;
use crate::entries::{Batches, Scan, decode};
use crate::error::{Error, Result};
use crate::snapshot::prefix_bounds;
use crate::sorted_batch::SortedBatch;
use crate::tree_def::{TreeDef, decode_value, malformed_value};
use crate::value::{AsValue, Value};
use lode_index::{Direction, Entry as EngineEntry, KeyBounds, KeyRange};
use lode_layout::{AsKey, AsPrefix, Key, Place, PoolOffset, encode_key};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound;

/// A tree in a transaction, which reads and changes it.
///
/// Reads are validated: if another transaction changes what was read, or adds a key to a range that was read, this one
/// starts again, or its [`commit`](crate::Transaction::commit) reports the conflict.
///
/// # Errors
/// A read fails with an error that [`is_conflict`](Error::is_conflict), which a closure passes on with `?`;
/// [`is_damage`](Error::is_damage); [`is_malformed`](Error::is_malformed); or [`is_no_tree`](Error::is_no_tree) if the
/// transaction has dropped the tree. A change fails with these, or with an error that
/// [`is_out_of_space`](Error::is_out_of_space), [`is_too_large`](Error::is_too_large),
/// [`is_read_only`](Error::is_read_only) or [`is_invalid_key`](Error::is_invalid_key) for keys above 64 KiB.
pub struct WriteTree<'t, K, V> {
    tree: ChangedTree<'t>,
    /// The entries at both ends, for pops that follow each other.
    ends: RefCell<Option<Batches>>,
    types: PhantomData<fn() -> (K, V)>,
}

/// The tree without its types.
#[derive(Clone)]
struct ChangedTree<'t> {
    changes: &'t Changes<'t>,
    root: PoolOffset,
    name: Box<str>,
}

impl Scan for ChangedTree<'_> {
    fn scan(
        &self,
        bounds: KeyBounds,
        direction: Direction,
        take: &mut dyn FnMut(EngineEntry) -> bool,
    ) -> Result<()> {
        let scanned = self.changes.scan(self.root, bounds, direction, take);
        scanned.map_err(|error| error.in_tree(&self.name))
    }

    fn apply_deferred(&self) -> Result<()> {
        self.changes.apply_deferred().map_err(|error| error.in_tree(&self.name))
    }

    fn edits(&self) -> u64 {
        self.changes.edits()
    }
}

impl ChangedTree<'_> {
    fn located(&self, error: Error) -> Error {
        self.changes.located(error.in_tree(&self.name))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.changes.get(self.root, key).map_err(|error| error.in_tree(&self.name))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.changes.put(self.root, key, value).map_err(|error| error.in_tree(&self.name))
    }

    /// Adds an entry to a batch.
    fn push<K, V: Value>(
        &self,
        batch: &mut SortedBatch,
        key: &impl AsKey<K>,
        value: &impl AsValue<V>,
    ) -> Result<()> {
        let value = self.encode_value(value)?;
        let pushed = batch.push(|bytes| key.encode_key(Place::Last, bytes), &value);
        pushed.map_err(|error| self.located(error))
    }

    /// Adds the entries of a batch to the tree, and leaves the batch empty.
    fn put_sorted(&self, batch: &mut SortedBatch) -> Result<()> {
        let put = self.changes.put_sorted(self.root, &batch.pairs());
        batch.clear();
        put.map_err(|error| error.in_tree(&self.name))
    }

    fn delete(&self, key: &[u8]) -> Result<bool> {
        self.changes.delete(self.root, key).map_err(|error| error.in_tree(&self.name))
    }

    /// Removes `key`, which was read, before the transaction does anything else; see [`Changes::delete_later`].
    fn delete_later(&self, key: &[u8]) -> Result<()> {
        self.changes.delete_later(self.root, key).map_err(|error| error.in_tree(&self.name))
    }

    fn encode_value<'v, V: Value>(
        &self,
        value: &'v (impl AsValue<V> + ?Sized),
    ) -> Result<std::borrow::Cow<'v, [u8]>> {
        value.encode_value().map_err(|cause| self.located(malformed_value::<V>(cause)))
    }

    /// Returns the first entry in a direction.
    fn end(&self, direction: Direction) -> Result<Option<EngineEntry>> {
        let mut found = None;
        self.apply_deferred()?;
        self.scan((Bound::Unbounded, Bound::Unbounded), direction, &mut |entry| {
            found = Some(entry);
            false
        })?;
        Ok(found)
    }
}

impl<K, V> fmt::Debug for WriteTree<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteTree").field(&self.tree.name).finish()
    }
}

impl<'t, K: Key, V: Value> WriteTree<'t, K, V> {
    /// Returns a tree, or `None` if there is none of that name.
    pub(crate) fn open(changes: &'t Changes<'t>, def: TreeDef<'_, K, V>) -> Result<Option<Self>> {
        let found = changes.find(def.name()).map_err(|error| error.in_tree(def.name()))?;
        let Some(tree) = found else { return Ok(None) };
        def.check(&tree).map_err(|error| changes.located(error))?;
        Ok(Some(WriteTree::new(changes, tree.root, def.name())))
    }

    /// Makes a tree.
    pub(crate) fn create(changes: &'t Changes<'t>, def: TreeDef<'_, K, V>) -> Result<Self> {
        let created = changes.create(def.name(), [&K::type_name(), &V::type_name()]);
        let tree = created.map_err(|error| error.in_tree(def.name()))?;
        Ok(WriteTree::new(changes, tree.root, def.name()))
    }

    /// Returns a tree, which is made if there is none of that name.
    pub(crate) fn open_or_create(changes: &'t Changes<'t>, def: TreeDef<'_, K, V>) -> Result<Self> {
        match WriteTree::open(changes, def)? {
            Some(tree) => Ok(tree),
            None => WriteTree::create(changes, def),
        }
    }

    fn new(changes: &'t Changes<'t>, root: PoolOffset, name: &str) -> WriteTree<'t, K, V> {
        let tree = ChangedTree { changes, root, name: name.into() };
        WriteTree { tree, ends: RefCell::default(), types: PhantomData }
    }

    #[cfg(test)]
    pub(crate) fn changes(&self) -> u64 {
        self.tree.changes.engine_changes()
    }

    fn decode_entry(&self, entry: EngineEntry) -> Result<(K, V)> {
        decode(entry).map_err(|error| self.tree.located(error))
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// Those of [reads](WriteTree).
    pub fn get(&self, key: impl AsKey<K>) -> Result<Option<V>> {
        self.get_encoded(&encode_key(&key))
    }

    fn get_encoded(&self, key: &[u8]) -> Result<Option<V>> {
        let value = self.tree.get(key)?.map(decode_value).transpose();
        value.map_err(|error| self.tree.located(error))
    }

    /// Returns true if the tree has `key`.
    ///
    /// # Errors
    /// Those of [reads](WriteTree).
    pub fn contains(&self, key: impl AsKey<K>) -> Result<bool> {
        Ok(self.tree.get(&encode_key(&key))?.is_some())
    }

    /// Returns the number of keys. Any transaction that adds or removes a key makes this one start again.
    ///
    /// # Errors
    /// Those of [reads](WriteTree).
    pub fn count(&self) -> Result<u64> {
        self.tree.changes.count(self.tree.root).map_err(|error| error.in_tree(&self.tree.name))
    }

    /// Returns the entry of the least key.
    ///
    /// # Errors
    /// Those of [reads](WriteTree).
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.tree.end(Direction::Forward)?.map(|entry| self.decode_entry(entry)).transpose()
    }

    /// Returns the entry of the greatest key.
    ///
    /// # Errors
    /// Those of [reads](WriteTree).
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.tree.end(Direction::Backward)?.map(|entry| self.decode_entry(entry)).transpose()
    }

    /// Removes the entry of the least key, and returns it.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    ///
    /// # Cost
    /// Pops that follow each other read the tree in batches, at most about twice as many entries as they return, and are
    /// made together: before the transaction does anything else.
    pub fn pop_first(&self) -> Result<Option<(K, V)>> {
        self.pop(Direction::Forward)
    }

    /// Removes the entry of the greatest key, and returns it.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn pop_last(&self) -> Result<Option<(K, V)>> {
        self.pop(Direction::Backward)
    }

    fn pop(&self, direction: Direction) -> Result<Option<(K, V)>> {
        let known = self.ends.take().filter(|ends| ends.knows_edits(&self.tree));
        let mut ends = known.unwrap_or_else(|| Batches::one_by_one(&self.tree));
        let Some(entry) = ends.next(&self.tree, direction).transpose()? else { return Ok(None) };
        let decoded = self.decode_entry(entry)?;
        self.tree.delete_later(ends.last_key(direction))?;
        ends.know_removal();
        self.ends.replace(Some(ends));
        Ok(Some(decoded))
    }

    /// Returns the entries whose keys lie in `keys`. They show changes that the transaction makes meanwhile.
    pub fn range(&self, keys: impl KeyRange<K>) -> WriteRange<'t, K, V> {
        self.between(keys.bounds())
    }

    /// Returns the entries whose keys begin with `prefix`, as [`range`](WriteTree::range) does.
    pub fn prefix(&self, prefix: impl AsPrefix<K>) -> WriteRange<'t, K, V> {
        self.between(prefix_bounds(&prefix))
    }

    /// Returns all entries, as [`range`](WriteTree::range) does.
    pub fn iter(&self) -> WriteRange<'t, K, V> {
        self.between((Bound::Unbounded, Bound::Unbounded))
    }

    fn between(&self, bounds: KeyBounds) -> WriteRange<'t, K, V> {
        let batches = Batches::new(bounds, self.tree.edits());
        WriteRange { tree: self.tree.clone(), batches, types: PhantomData }
    }

    /// Gives `key` a value. Returns true if it had one. The old value does not count as read; [`insert`](WriteTree::insert)
    /// returns it.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn put(&self, key: impl AsKey<K>, value: impl AsValue<V>) -> Result<bool> {
        self.tree.put(&encode_key(&key), &self.tree.encode_value(&value)?)
    }

    /// Gives `key` a value. Returns the old one.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn insert(&self, key: impl AsKey<K>, value: impl AsValue<V>) -> Result<Option<V>> {
        let (key, value) = (encode_key(&key), self.tree.encode_value(&value)?);
        let old = self.get_encoded(&key)?;
        self.tree.put(&key, &value)?;
        Ok(old)
    }

    /// Removes `key`. Returns true if it was there.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn delete(&self, key: impl AsKey<K>) -> Result<bool> {
        self.tree.delete(&encode_key(&key))
    }

    /// Removes `key`. Returns its value.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn remove(&self, key: impl AsKey<K>) -> Result<Option<V>> {
        let key = encode_key(&key);
        let old = self.get_encoded(&key)?;
        if old.is_some() {
            self.tree.delete(&key)?;
        }
        Ok(old)
    }

    /// Gives `key` the value that `decide` makes of the present one; `None` stands for no value. Returns the new value.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn update(
        &self,
        key: impl AsKey<K>,
        decide: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<Option<V>> {
        let key = encode_key(&key);
        let new = decide(self.get_encoded(&key)?);
        match &new {
            Some(value) => self.tree.put(&key, &self.tree.encode_value(value)?)?,
            None => self.tree.delete(&key)?,
        };
        Ok(new)
    }

    /// Gives `key` the value `new` if its value is `expected`; `None` stands for no value. Returns true if it was.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn compare_and_set<W: AsValue<V>, X: AsValue<V>>(
        &self,
        key: impl AsKey<K>,
        expected: Option<W>,
        new: Option<X>,
    ) -> Result<bool> {
        let key = encode_key(&key);
        let found = self.tree.get(&key)?;
        let expected = expected.as_ref().map(|value| self.tree.encode_value(value)).transpose()?;
        if found.as_deref() != expected.as_deref() {
            return Ok(false);
        }
        match new {
            Some(value) => self.tree.put(&key, &self.tree.encode_value(&value)?)?,
            None => self.tree.delete(&key)?,
        };
        Ok(true)
    }

    /// Returns the place of `key`, with its value or without.
    ///
    /// # Errors
    /// Those of [reads](WriteTree).
    pub fn entry(&self, key: impl AsKey<K>) -> Result<Entry<'_, 't, K, V>> {
        let key = encode_key(&key);
        let value = self.get_encoded(&key)?;
        Ok(Entry { tree: self, key, value })
    }

    /// Removes the entries in `keys` for which `keep` returns false. Returns their number. `..` is all keys.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn retain(&self, keys: impl KeyRange<K>, mut keep: impl FnMut(&K, &V) -> bool) -> Result<u64> {
        let WriteRange { tree, mut batches, .. } = self.range(keys);
        let mut removed = 0;
        while let Some(entry) = batches.next(&tree, Direction::Forward) {
            let (key, value) = decode(entry?).map_err(|error| tree.located(error))?;
            if !keep(&key, &value) {
                tree.delete_later(batches.last_key(Direction::Forward))?;
                batches.know_removal();
                removed += 1;
            }
        }
        tree.apply_deferred()?;
        Ok(removed)
    }

    /// Removes the entries in `keys` for which `is_extracted` returns true, and returns them. An entry is removed when the
    /// iterator returns it, so those that it has not come to stay.
    ///
    /// # Errors
    /// Those of [changes](WriteTree). Removals are made together, at the latest by the next read of another iterator or by
    /// the commit, which fails if one of them does.
    pub fn extract_if<F: FnMut(&K, &V) -> bool>(
        &self,
        keys: impl KeyRange<K>,
        is_extracted: F,
    ) -> ExtractIf<'t, K, V, F> {
        ExtractIf { range: self.range(keys), is_extracted }
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn clear(&self) -> Result<()> {
        let mut batches = Batches::new((Bound::Unbounded, Bound::Unbounded), self.tree.edits());
        while let Some(entry) = batches.next(&self.tree, Direction::Forward) {
            self.tree.delete_later(&entry?.key)?;
            batches.know_removal();
        }
        self.tree.apply_deferred()
    }

    /// Adds entries that are sorted by their keys, and come after all keys of the tree. Returns their number.
    ///
    /// Reads of the transaction see the entries when this returns, not while `entries` is iterated.
    ///
    /// # Errors
    /// [`is_not_ascending`](Error::is_not_ascending) at the first key that does not come after those before it; the entries
    /// before it are added. Those of [changes](WriteTree).
    ///
    /// # Cost
    /// An entry costs its leaf, and its share of the nodes, each of which is made once. Up to 1,024 entries or 256 KiB are
    /// kept in memory.
    pub fn append<Q: AsKey<K>, W: AsValue<V>>(
        &self,
        entries: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<u64> {
        let mut batch = SortedBatch::after(self.tree.end(Direction::Backward)?.map(|entry| entry.key));
        let mut count = 0;
        for (key, value) in entries {
            let pushed = self.tree.push(&mut batch, &key, &value);
            if pushed.is_err() || batch.is_full() {
                self.tree.put_sorted(&mut batch)?;
            }
            pushed?;
            count += 1;
        }
        self.tree.put_sorted(&mut batch)?;
        Ok(count)
    }
}

/// The entries of a range of keys of a [`WriteTree`]. Ascending from the front and descending from the back. They show
/// changes that the transaction makes meanwhile. Ends after an error of the transaction or of the medium.
///
/// Entries are read in batches, at most about twice as many as are returned. All of them are validated.
pub struct WriteRange<'t, K, V> {
    tree: ChangedTree<'t>,
    batches: Batches,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> fmt::Debug for WriteRange<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteRange").field(&self.tree.name).finish()
    }
}

impl<K: Key, V: Value> WriteRange<'_, K, V> {
    fn next_from(&mut self, direction: Direction) -> Option<Result<(K, V)>> {
        let entry = self.batches.next(&self.tree, direction)?;
        Some(entry.and_then(decode).map_err(|error| self.tree.located(error)))
    }
}

impl<K: Key, V: Value> Iterator for WriteRange<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Forward)
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for WriteRange<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Backward)
    }
}

/// The entries that [`WriteTree::extract_if`] removes. From the back it removes the last ones first.
pub struct ExtractIf<'t, K, V, F> {
    range: WriteRange<'t, K, V>,
    is_extracted: F,
}

impl<K, V, F> fmt::Debug for ExtractIf<'_, K, V, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExtractIf").field(&self.range).finish()
    }
}

impl<K: Key, V: Value, F: FnMut(&K, &V) -> bool> ExtractIf<'_, K, V, F> {
    fn next_from(&mut self, direction: Direction) -> Option<Result<(K, V)>> {
        loop {
            let WriteRange { tree, batches, .. } = &mut self.range;
            let entry = match batches.next(tree, direction) {
                Some(Ok(entry)) => entry,
                Some(Err(error)) => return Some(Err(error)),
                None => return tree.apply_deferred().err().map(Err),
            };
            let (key, value) = match decode(entry) {
                Ok(pair) => pair,
                Err(error) => return Some(Err(tree.located(error))),
            };
            if (self.is_extracted)(&key, &value) {
                let removed = tree.delete_later(batches.last_key(direction));
                batches.know_removal();
                return Some(removed.map(|()| (key, value)));
            }
        }
    }
}

impl<K: Key, V: Value, F: FnMut(&K, &V) -> bool> Iterator for ExtractIf<'_, K, V, F> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Forward)
    }
}

impl<K: Key, V: Value, F: FnMut(&K, &V) -> bool> DoubleEndedIterator for ExtractIf<'_, K, V, F> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_from(Direction::Backward)
    }
}

/// The place of a key in a tree, from [`WriteTree::entry`].
pub struct Entry<'a, 't, K, V> {
    tree: &'a WriteTree<'t, K, V>,
    key: Vec<u8>,
    value: Option<V>,
}

impl<K, V: fmt::Debug> fmt::Debug for Entry<'_, '_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("key", &self.key).field("value", &self.value).finish()
    }
}

impl<K: Key, V: Value> Entry<'_, '_, K, V> {
    /// Returns the value, if the key has one.
    pub fn get(&self) -> Option<&V> {
        self.value.as_ref()
    }

    /// Changes the value, if the key has one.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn and_modify(mut self, modify: impl FnOnce(&mut V)) -> Result<Self> {
        if let Some(value) = &mut self.value {
            modify(value);
            self.tree.tree.put(&self.key, &self.tree.tree.encode_value(value)?)?;
        }
        Ok(self)
    }

    /// Gives the key the value that `make` returns, unless it has one. Returns its value.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> Result<V> {
        match self.value {
            Some(value) => Ok(value),
            None => {
                let value = make();
                self.tree.tree.put(&self.key, &self.tree.tree.encode_value(&value)?)?;
                Ok(value)
            }
        }
    }

    /// Gives the key this value, unless it has one. Returns its value.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn or_insert(self, value: V) -> Result<V> {
        self.or_insert_with(|| value)
    }

    /// Gives the key the default value, unless it has one. Returns its value.
    ///
    /// # Errors
    /// Those of [changes](WriteTree).
    pub fn or_default(self) -> Result<V>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}
