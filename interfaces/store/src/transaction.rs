//! Transactions that change trees.

use crate::changes::{Changes, EngineTx};
use crate::engine::Medium;
use crate::error::Result;
use crate::later::Ticket;
use crate::shared::Shared;
use crate::span::span;
use crate::tree_def::TreeDef;
use crate::value::Value;
use crate::write_tree::WriteTree;
use lode_heap::{OpenTransaction, Tx};
use lode_layout::Key;

/// A transaction on a store: all that it reads and changes, in any of the trees, happens at one moment, or not at all.
///
/// [`Store::write`](crate::Store::write) lends one to a closure, and [`Store::begin`](crate::Store::begin) returns one
/// that the caller [commits](Transaction::commit); dropped instead, it changes nothing. A transaction belongs to one
/// thread.
///
/// It sees its own changes, and otherwise the store as it was at one moment. Its reads are validated when it commits.
///
/// ```compile_fail,E0277
/// fn assert_send<T: Send>() {}
/// assert_send::<lodestone::Transaction<'static>>(); // It belongs to its thread.
/// ```
///
/// ```compile_fail
/// # use lodestone::{Store, TreeDef};
/// # fn leak(store: &Store) {
/// let mut escaped = None;
/// let _ = store.write(|tx| {
///     escaped = Some(tx.tree(TreeDef::<u8, u8>::new("numbers"))?); // A tree ends with its transaction.
///     Ok(())
/// });
/// # }
/// ```
#[derive(Debug)]
pub struct Transaction<'s> {
    shared: &'s Shared,
    changes: Changes<'s>,
}

/// A moment of a transaction, to which [`Transaction::roll_back_to`] goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    number: u64,
}

impl<'s> Transaction<'s> {
    pub(crate) fn of_closure(shared: &'s Shared, tx: &'s Tx<'s, Medium>) -> Transaction<'s> {
        Transaction { shared, changes: Changes::new(shared, EngineTx::Closure(tx)) }
    }

    pub(crate) fn open(shared: &'s Shared, tx: OpenTransaction<'s, Medium>) -> Transaction<'s> {
        Transaction { shared, changes: Changes::new(shared, EngineTx::Open(tx)) }
    }

    pub(crate) fn changes(&self) -> &Changes<'s> {
        &self.changes
    }

    /// Returns a tree, which is made if there is none of that name.
    ///
    /// # Errors
    /// [`is_wrong_type`](crate::Error::is_wrong_type), [`is_invalid_key`](crate::Error::is_invalid_key) for the name; those of a
    /// [change](WriteTree).
    pub fn tree<K: Key, V: Value>(&self, def: TreeDef<'_, K, V>) -> Result<WriteTree<'_, K, V>> {
        WriteTree::open_or_create(&self.changes, def)
    }

    /// Returns a tree, or `None` if there is none of that name.
    ///
    /// # Errors
    /// [`is_wrong_type`](crate::Error::is_wrong_type); those of a [read](WriteTree).
    pub fn get_tree<K: Key, V: Value>(&self, def: TreeDef<'_, K, V>) -> Result<Option<WriteTree<'_, K, V>>> {
        WriteTree::open(&self.changes, def)
    }

    /// Makes a tree.
    ///
    /// # Errors
    /// [`is_tree_exists`](crate::Error::is_tree_exists), [`is_invalid_key`](crate::Error::is_invalid_key) for the name; those of a
    /// [change](WriteTree).
    pub fn create_tree<K: Key, V: Value>(&self, def: TreeDef<'_, K, V>) -> Result<WriteTree<'_, K, V>> {
        WriteTree::create(&self.changes, def)
    }

    /// Drops the tree of this name with all of its keys, whatever their types. Returns false if there is none. Handles of
    /// the tree fail from then on.
    ///
    /// The tree is gone when the transaction commits. Its space is given back after that, a part at a time: by this
    /// thread before [`Store::write`](crate::Store::write) returns, and if that was interrupted, by later transactions.
    ///
    /// # Errors
    /// Those of a [change](WriteTree).
    pub fn drop_tree(&self, name: &str) -> Result<bool> {
        self.changes.drop_tree(name)
    }

    /// Gives the tree `old` the name `new`, which no tree has.
    ///
    /// # Errors
    /// [`is_no_tree`](crate::Error::is_no_tree), [`is_tree_exists`](crate::Error::is_tree_exists),
    /// [`is_invalid_key`](crate::Error::is_invalid_key) for the name; those of a [change](WriteTree).
    pub fn rename_tree(&self, old: &str, new: &str) -> Result<()> {
        self.changes.rename(old, new)
    }

    /// Returns the names of all trees, sorted.
    ///
    /// # Errors
    /// Those of a [read](WriteTree).
    pub fn tree_names(&self) -> Result<Vec<String>> {
        self.changes.names()
    }

    /// Makes a savepoint.
    ///
    /// # Cost
    /// From here to its end the transaction remembers the old value of each key that it changes, in memory.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { number: self.changes.savepoint() }
    }

    /// Takes all changes since the savepoint back: keys, and trees that were made, dropped or renamed. The savepoint can
    /// be used again; those made after it can't. Reads that the transaction has made still count.
    ///
    /// # Errors
    /// [`is_savepoint_gone`](crate::Error::is_savepoint_gone); those of a [change](WriteTree), after which the transaction can't
    /// commit.
    pub fn roll_back_to(&self, savepoint: Savepoint) -> Result<()> {
        self.changes.roll_back_to(savepoint.number)
    }

    /// Commits a transaction of [`Store::begin`](crate::Store::begin).
    ///
    /// # Errors
    /// [`is_conflict`](crate::Error::is_conflict) if another transaction has changed what this one has read: nothing is changed,
    /// and the caller begins again. Those of [`Store::write`](crate::Store::write).
    ///
    /// # Durability
    /// Durable on return.
    pub fn commit(self) -> Result<()> {
        let _span = span!("commit");
        self.changes.apply_deferred()?;
        let (shared, has_dropped) = (self.shared, self.changes.has_dropped());
        match self.changes.into_engine() {
            EngineTx::Open(tx) => tx.commit().map_err(|error| shared.located(error))?,
            EngineTx::Closure(_) => unreachable!("a closure is lent its transaction"),
        }
        shared.after_commit(has_dropped);
        Ok(())
    }

    /// Commits as [`commit`](Transaction::commit) does, and returns before the changes are durable, with a [`Ticket`] that
    /// tells when they are; see [`Store::write_later`](crate::Store::write_later).
    ///
    /// # Errors
    /// Those of [`commit`](Transaction::commit).
    ///
    /// # Durability
    /// None on return.
    ///
    /// # Cost
    /// That of [`Store::write_later`](crate::Store::write_later).
    pub fn commit_later(self) -> Result<Ticket> {
        let _span = span!("commit_later");
        self.changes.apply_deferred()?;
        let (shared, has_dropped) = (self.shared, self.changes.has_dropped());
        let position = match self.changes.into_engine() {
            EngineTx::Open(tx) => tx.commit_later().map_err(|error| shared.located(error))?,
            EngineTx::Closure(_) => unreachable!("a closure is lent its transaction"),
        };
        shared.after_commit(has_dropped);
        shared.ticket(position)
    }
}
