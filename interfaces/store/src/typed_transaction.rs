//! Transactions that change typed data and trees.

use crate::changes::Changes;
use crate::error::Result;
use crate::tree_def::TreeDef;
use crate::value::Value;
use crate::write_tree::WriteTree;
use lode_heap::{Brand, TypedTx};
use lode_layout::Key;
use std::fmt;
use std::ops::Deref;

/// A transaction on typed data and on trees, which [`TypedStore::write`](crate::typed::TypedStore::write) lends to its closure.
///
/// It derefs to the [`TypedTx`] of the typed data, so it is what their methods take: `shop.sold.set(tx, 1)`. Both see the changes of
/// each other at once. Errors of both pass on with `?`.
///
/// ```compile_fail
/// # lodestone::typed::brand!(Shop);
/// # use lodestone::{TreeDef, typed::TypedStore};
/// # fn leak(store: &TypedStore<Shop>) {
/// let mut escaped = None;
/// let _ = store.write(|tx| {
///     escaped = Some(tx.tree(TreeDef::<u8, u8>::new("numbers"))?); // A tree ends with its transaction.
///     Ok(())
/// });
/// # }
/// ```
pub struct TypedTransaction<'t, B: Brand> {
    tx: &'t TypedTx<'t, B>,
    changes: Changes<'t>,
}

impl<'t, B: Brand> TypedTransaction<'t, B> {
    pub(crate) fn new(tx: &'t TypedTx<'t, B>, changes: Changes<'t>) -> TypedTransaction<'t, B> {
        TypedTransaction { tx, changes }
    }

    pub(crate) fn changes(&self) -> &Changes<'t> {
        &self.changes
    }

    /// Returns a tree, which is made if there is none of that name.
    ///
    /// # Errors
    /// As [`Transaction::tree`](crate::Transaction::tree); [`is_no_root`](crate::Error::is_no_root).
    pub fn tree<K: Key, V: Value>(&self, def: TreeDef<'_, K, V>) -> Result<WriteTree<'_, K, V>> {
        WriteTree::open_or_create(&self.changes, def)
    }

    /// Returns a tree, or `None` if there is none of that name.
    ///
    /// # Errors
    /// As [`Transaction::get_tree`](crate::Transaction::get_tree).
    pub fn get_tree<K: Key, V: Value>(&self, def: TreeDef<'_, K, V>) -> Result<Option<WriteTree<'_, K, V>>> {
        WriteTree::open(&self.changes, def)
    }

    /// Makes a tree.
    ///
    /// # Errors
    /// As [`Transaction::create_tree`](crate::Transaction::create_tree); [`is_no_root`](crate::Error::is_no_root).
    pub fn create_tree<K: Key, V: Value>(&self, def: TreeDef<'_, K, V>) -> Result<WriteTree<'_, K, V>> {
        WriteTree::create(&self.changes, def)
    }

    /// Drops the tree of this name, as [`Transaction::drop_tree`](crate::Transaction::drop_tree) does. Returns false if there is
    /// none.
    ///
    /// # Errors
    /// As [`Transaction::drop_tree`](crate::Transaction::drop_tree).
    pub fn drop_tree(&self, name: &str) -> Result<bool> {
        self.changes.drop_tree(name)
    }

    /// Gives the tree `old` the name `new`, which no tree has.
    ///
    /// # Errors
    /// As [`Transaction::rename_tree`](crate::Transaction::rename_tree).
    pub fn rename_tree(&self, old: &str, new: &str) -> Result<()> {
        self.changes.rename(old, new)
    }

    /// Returns the names of all trees, sorted.
    ///
    /// # Errors
    /// As [`Transaction::tree_names`](crate::Transaction::tree_names).
    pub fn tree_names(&self) -> Result<Vec<String>> {
        self.changes.names()
    }
}

impl<B: Brand> fmt::Debug for TypedTransaction<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedTransaction").field(&self.changes).finish()
    }
}

impl<'t, B: Brand> Deref for TypedTransaction<'t, B> {
    type Target = TypedTx<'t, B>;

    fn deref(&self) -> &TypedTx<'t, B> {
        self.tx
    }
}
