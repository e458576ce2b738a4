//! Named trees of one pool.
//!
//! ```text
//!   root object of the pool    the table of trees, itself a tree
//!        |  0x01 name     -> root object, types of keys and values     a named tree
//!        |  0x02 offset   -> nothing                                   a dropped tree, not yet reclaimed
//!   root objects of the trees
//! ```
//!
//! The entries of the table are read and changed by transactions like any other keys. So a transaction that uses a tree
//! by its name notes the entry as read, and starts again if the tree is dropped before it commits.
//!
//! Dropping a tree changes two keys of the table, whatever the size of the tree. From then on no transaction and no
//! snapshot finds it by its name. [`Trees::reclaim`] deletes its keys by transactions of bounded length, the last of
//! which frees the root object. A crash in between leaves a dropped tree with fewer keys, which the next call goes on
//! with. Readers that found the tree before are pinned, so they still see sound nodes.

pub(crate) mod beside;
mod copy;
mod entry;
mod layout;
mod placement;
mod plan;
mod salvage;
mod survey;
pub(crate) mod trace;
mod typed;

pub(crate) use survey::root_of_entry;

pub use entry::NamedTree;
pub use layout::StoreLayout;

use crate::bugs;
use crate::error::IndexError;
use crate::snapshot::TreeSnapshot;
use crate::tree::Tree;
use entry::{check_name, damaged_table};
use lode_heap::{Heap, Tx};
use lode_layout::{PoolOffset, TreeEntry, TreeTableKey};
use lode_pmem::Medium;

/// The trees of a pool by their names, in the pool of a heap.
#[derive(Debug)]
pub struct Trees<'h, M: Medium> {
    table: Tree<'h, M>,
}

impl<M: Medium> Clone for Trees<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for Trees<'_, M> {}

impl<'h, M: Medium> Trees<'h, M> {
    /// Makes an empty table of trees, and makes it the root object of the pool.
    ///
    /// # Errors
    /// As [`Tree::create`].
    pub fn create(tx: &Tx<'_, M>) -> Result<PoolOffset, IndexError> {
        let table = Tree::create(tx)?;
        tx.set_root(table);
        Ok(table)
    }

    /// Opens the table of trees whose root object is at `table`, as [`create`](Trees::create) returned it. A pool
    /// without one that was opened for reading, where `table` is [`PoolOffset::NULL`], has no trees.
    ///
    /// # Errors
    /// As [`Tree::open`].
    pub fn open(heap: &'h Heap<M>, table: PoolOffset) -> Result<Trees<'h, M>, IndexError> {
        let table = if table.is_null() { Tree::empty(heap) } else { Tree::open(heap, table)? };
        Ok(Trees { table })
    }

    /// Returns the tree `name`, if there is one, as the transaction sees it. The read is validated.
    ///
    /// # Errors
    /// As [`Tree::get_in`].
    pub fn get_in(&self, tx: &Tx<'_, M>, name: &str) -> Result<Option<NamedTree>, IndexError> {
        let key = TreeTableKey::Named(name).encode();
        let found = match bugs::TREE_NAME_UNVALIDATED.is_active() {
            true => self.table.get_unvalidated_in(tx, &key)?,
            false => self.table.get_in(tx, &key)?,
        };
        found.map(|entry| self.decode(&entry)).transpose()
    }

    /// Returns the tree `name`, if there is one at the moment. The tree may be dropped at any time after that, so the
    /// caller is pinned, and asks again after it has read from the tree.
    ///
    /// # Errors
    /// As [`Reader::get`](crate::Reader::get).
    pub fn get(&self, name: &str) -> Result<Option<NamedTree>, IndexError> {
        let reader = self.table.reader();
        let found = reader.get(&TreeTableKey::Named(name).encode())?;
        found.map(|entry| self.decode(&entry)).transpose()
    }

    /// Makes an empty tree with this name, which no tree has.
    ///
    /// # Errors
    /// [`IndexError::TreeName`], [`IndexError::TreeExists`]; otherwise as [`Tree::insert_in`].
    pub fn create_in(
        &self,
        tx: &Tx<'_, M>,
        name: &str,
        key_type: &str,
        value_type: &str,
    ) -> Result<NamedTree, IndexError> {
        check_name(name, [key_type, value_type])?;
        let key = TreeTableKey::Named(name).encode();
        if self.table.get_in(tx, &key)?.is_some() {
            return Err(IndexError::TreeExists);
        }
        let root = Tree::create(tx)?;
        let entry = TreeEntry { root, key_type, value_type };
        let inserted = self.table.insert_in(tx, &key, &entry.encode());
        // A new root object without an entry would be a leak.
        inserted.inspect_err(|_| tx.set_rollback_only())?;
        Ok(NamedTree::of(entry))
    }

    /// Removes the empty tree `name`, which this transaction has made, and frees its root object.
    ///
    /// # Errors
    /// As [`Tree::delete_in`].
    pub fn undo_create_in(&self, tx: &Tx<'_, M>, name: &str, root: PoolOffset) -> Result<(), IndexError> {
        let removed = self.table.delete_in(tx, &TreeTableKey::Named(name).encode());
        removed.and_then(|_| Ok(tx.free(root)?)).inspect_err(|_| tx.set_rollback_only())
    }

    /// Drops the tree `name`, if there is one, and returns it. [`reclaim`](Trees::reclaim) gives its space back, after
    /// the transaction.
    ///
    /// # Errors
    /// As [`Tree::insert_in`].
    pub fn drop_in(&self, tx: &Tx<'_, M>, name: &str) -> Result<Option<NamedTree>, IndexError> {
        let Some(tree) = self.get_in(tx, name)? else { return Ok(None) };
        let key = TreeTableKey::Dropped(tree.root).encode();
        if !bugs::DROPPED_TREE_FORGOTTEN.is_active() {
            self.table.insert_in(tx, &key, &[])?;
        }
        let removed = self.table.delete_in(tx, &TreeTableKey::Named(name).encode());
        removed.inspect_err(|_| tx.set_rollback_only())?;
        Ok(Some(tree))
    }

    /// Takes back [`drop_in`](Trees::drop_in) of the same transaction.
    ///
    /// # Errors
    /// As [`Tree::insert_in`].
    pub fn undo_drop_in(&self, tx: &Tx<'_, M>, name: &str, tree: &NamedTree) -> Result<(), IndexError> {
        let entry = tree.entry().encode();
        let put_back = self.table.insert_in(tx, &TreeTableKey::Named(name).encode(), &entry);
        let removed =
            put_back.and_then(|_| self.table.delete_in(tx, &TreeTableKey::Dropped(tree.root).encode()));
        removed.map(drop).inspect_err(|_| tx.set_rollback_only())
    }

    /// Gives the tree `name` the name `new`, which no tree has. Returns false if there is no tree `name`.
    ///
    /// # Errors
    /// [`IndexError::TreeName`], [`IndexError::TreeExists`]; otherwise as [`Tree::insert_in`].
    pub fn rename_in(&self, tx: &Tx<'_, M>, name: &str, new: &str) -> Result<bool, IndexError> {
        check_name(new, [""; 2])?;
        let (key, new_key) = (TreeTableKey::Named(name).encode(), TreeTableKey::Named(new).encode());
        let Some(entry) = self.table.get_in(tx, &key)? else { return Ok(false) };
        if self.table.get_in(tx, &new_key)?.is_some() {
            return Err(IndexError::TreeExists);
        }
        self.table.insert_in(tx, &new_key, &entry)?;
        self.table.delete_in(tx, &key).inspect_err(|_| tx.set_rollback_only())
    }

    /// Moves the root object of the tree `name` if it is to move. The caller alone uses the tree.
    fn move_root(&self, name: &str) -> Result<(), IndexError> {
        let heap = self.table.heap();
        let put_entry = |tx: &Tx<'_, M>, found: &NamedTree, root| {
            let entry = TreeEntry { root, ..found.entry() };
            let put = self.table.insert_in(tx, &TreeTableKey::Named(name).encode(), &entry.encode());
            put.map(drop).inspect_err(|_| tx.set_rollback_only())
        };
        let left = heap.run(|tx| {
            let Some(found) = self.get_in(tx, name)? else { return Ok(None) };
            let Some(root) = Tree::open(heap, found.root)?.move_root_in(tx)? else { return Ok(None) };
            if bugs::ROOT_MOVED_IN_TWO.is_active() {
                return Ok(Some((found, root)));
            }
            put_entry(tx, &found, root)?;
            Ok::<_, IndexError>(None)
        })?;
        match left {
            Some((found, root)) => heap.run(|tx| put_entry(tx, &found, root)),
            None => Ok(()),
        }
    }

    /// Returns the names of all trees, sorted, as the transaction sees them. The reads are validated.
    ///
    /// # Errors
    /// As [`RangeIn`](crate::RangeIn).
    pub fn names_in(&self, tx: &Tx<'_, M>) -> Result<Vec<String>, IndexError> {
        let entries = self.table.prefix_in(tx, &TreeTableKey::NAMED_PREFIX)?;
        entries.map(|entry| self.name_of(&entry?.key)).collect()
    }

    /// Returns the names of all trees, with their root objects, as they were last committed.
    pub(crate) fn named(&self) -> Result<Vec<(String, PoolOffset)>, IndexError> {
        let reader = self.table.reader();
        let entries = reader.prefix(&TreeTableKey::NAMED_PREFIX);
        let named = entries.map(|entry| {
            let entry = entry?;
            Ok((self.name_of(&entry.key)?, self.decode(&entry.value)?.root))
        });
        named.collect()
    }

    /// Returns true if there are dropped trees whose space is not given back yet.
    ///
    /// # Errors
    /// As [`Range`](crate::Range).
    pub fn has_dropped(&self) -> Result<bool, IndexError> {
        let reader = self.table.reader();
        let first = reader.prefix(&TreeTableKey::DROPPED_PREFIX).next();
        first.transpose().map(|entry| entry.is_some())
    }

    /// Deletes up to `keys_max` keys, at least one, of a dropped tree, in one transaction. Frees the root object of a tree
    /// without keys. Returns true if another call may have more to do.
    ///
    /// # Errors
    /// As [`Tree::delete`]. The next call goes on.
    ///
    /// # Durability
    /// Durable on return. A crash leaves the dropped tree with fewer keys.
    ///
    /// # Cost
    /// One drain; none if there is no dropped tree.
    pub fn reclaim(&self, keys_max: usize) -> Result<bool, IndexError> {
        let heap = self.table.heap();
        heap.run(|tx| {
            let mut dropped = self.table.prefix_in(tx, &TreeTableKey::DROPPED_PREFIX)?;
            let Some(entry) = dropped.next().transpose()? else { return Ok(false) };
            let Ok(TreeTableKey::Dropped(root)) = TreeTableKey::decode(&entry.key) else {
                return Err(damaged_table(self.table.root()));
            };
            let tree = Tree::open_in(heap, tx, root)?;
            let keys = tree.range_in::<&[u8]>(tx, ..)?.take(keys_max.max(1));
            let keys = keys.map(|entry| Ok(entry?.key)).collect::<Result<Vec<_>, IndexError>>()?;
            tree.delete_sorted_in(tx, &keys.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
            if keys.is_empty() {
                self.table.delete_in(tx, &entry.key)?;
                if bugs::DROPPED_ROOT_LEAKED.is_active() {
                    return Ok(true);
                }
                tx.free(root).inspect_err(|_| tx.set_rollback_only())?;
            }
            Ok(true)
        })
    }

    /// Returns the root objects of the table, if there is one, and of all trees, dropped ones too.
    pub(crate) fn roots(&self) -> Result<Vec<PoolOffset>, IndexError> {
        let mut roots = Vec::from_iter(Some(self.table.root()).filter(|table| !table.is_null()));
        for entry in self.table.reader().iter() {
            let entry = entry?;
            roots.push(match TreeTableKey::decode(&entry.key) {
                Ok(TreeTableKey::Named(_)) => self.decode(&entry.value)?.root,
                Ok(TreeTableKey::Dropped(root)) => root,
                Err(_) => return Err(damaged_table(self.table.root())),
            });
        }
        Ok(roots)
    }

    fn decode(&self, entry: &[u8]) -> Result<NamedTree, IndexError> {
        entry::decode(entry, self.table.root())
    }

    fn name_of(&self, key: &[u8]) -> Result<String, IndexError> {
        entry::name_of(key, self.table.root())
    }
}

/// The trees of a pool by their names, as a snapshot sees them.
#[derive(Debug)]
pub struct TreesSnapshot<'s, 'h, M: Medium> {
    table: TreeSnapshot<'s, 'h, M>,
    at: PoolOffset,
}

impl<'s, 'h, M: Medium> TreesSnapshot<'s, 'h, M> {
    /// Opens the table of trees at `table`, as [`Trees::open`] does.
    ///
    /// # Errors
    /// As [`TreeSnapshot::open`].
    pub fn open(
        snapshot: &'s lode_heap::Snapshot<'h, M>,
        table: PoolOffset,
    ) -> Result<TreesSnapshot<'s, 'h, M>, IndexError> {
        Ok(TreesSnapshot { table: TreeSnapshot::open(snapshot, table)?, at: table })
    }

    /// Returns the tree `name`, if there is one.
    ///
    /// # Errors
    /// As [`TreeSnapshot::get`].
    pub fn get(&self, name: &str) -> Result<Option<NamedTree>, IndexError> {
        let found = self.table.get(&TreeTableKey::Named(name).encode())?;
        found.map(|entry| entry::decode(&entry, self.at)).transpose()
    }

    /// Returns the names of all trees, sorted.
    ///
    /// # Errors
    /// As [`RangeAt`](crate::RangeAt).
    pub fn names(&self) -> Result<Vec<String>, IndexError> {
        let entries = self.table.prefix(&TreeTableKey::NAMED_PREFIX);
        entries.map(|entry| entry::name_of(&entry?.key, self.at)).collect()
    }
}
