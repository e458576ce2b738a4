//! The changes of a running transaction, and the steps that take them back to a savepoint.

use crate::deferred_deletes::DeferredDeletes;
use crate::engine::{EngineResult, Medium};
use crate::entries::take_entries;
use crate::error::{Error, Kind, Result};
use crate::tree_pool::TreePool;
use lode_heap::{Heap, OpenTransaction, Tx};
use lode_index::{Direction, Entry, IndexError, KeyBounds, NamedTree, Tree, Trees};
use lode_layout::PoolOffset;
use lode_pmem::Counter;
use std::cell::{Cell, RefCell};
use std::fmt;

/// The engine's transaction.
pub(crate) enum EngineTx<'t> {
    /// That of a closure.
    Closure(&'t Tx<'t, Medium>),
    /// One that the caller begins and commits.
    Open(OpenTransaction<'t, Medium>),
}

/// A running transaction on the trees of a pool.
pub(crate) struct Changes<'t> {
    pool: &'t dyn TreePool,
    heap: &'t Heap<Medium>,
    tx: EngineTx<'t>,
    /// The root object of the table of trees; null as long as it was not looked for, or there is none.
    table: Cell<PoolOffset>,
    /// Root objects of trees that the transaction has dropped, or whose creation it has rolled back.
    gone: RefCell<Vec<PoolOffset>>,
    undo: RefCell<UndoLog>,
    /// Deletions that the trees do not show yet. Whatever else the transaction does comes after them.
    deferred: RefCell<DeferredDeletes>,
    /// Number of changes, deferred ones too.
    edits: Cell<u64>,
    has_dropped: Cell<bool>,
    was_full: Cell<bool>,
}

/// The steps that take changes back, from the first savepoint on.
#[derive(Debug, Default)]
struct UndoLog {
    steps: Vec<Undo>,
    /// The savepoints that can be rolled back to: their numbers, and the steps that there were.
    savepoints: Vec<(u64, usize)>,
}

/// A step that takes one change back.
#[derive(Debug)]
enum Undo {
    /// Gives the key its old value, or removes it.
    Key { root: PoolOffset, key: Vec<u8>, old: Option<Vec<u8>> },
    /// Removes a tree that was made.
    Created { name: String, root: PoolOffset },
    /// Puts a dropped tree back.
    Dropped { name: String, tree: NamedTree },
    /// Gives a tree its old name.
    Renamed { old: String, new: String },
}

impl fmt::Debug for Changes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("gone", &self.gone).field("undo", &self.undo).finish_non_exhaustive()
    }
}

impl<'t> Changes<'t> {
    pub(crate) fn new(pool: &'t dyn TreePool, tx: EngineTx<'t>) -> Changes<'t> {
        let (table, gone, undo, deferred, edits, has_dropped, was_full) = Default::default();
        let heap = pool.heap();
        Changes { pool, heap, tx, table, gone, undo, deferred, edits, has_dropped, was_full }
    }

    /// Adds the path of the pool to an error.
    pub(crate) fn located(&self, error: impl Into<Error>) -> Error {
        self.pool.located(error)
    }

    /// Returns true if the transaction has dropped a tree.
    pub(crate) fn has_dropped(&self) -> bool {
        self.has_dropped.get()
    }

    /// Returns true if an operation has found no space.
    pub(crate) fn was_full(&self) -> bool {
        self.was_full.get()
    }

    /// Adds the path of the pool to an error of the engine.
    fn failed(&self, error: IndexError) -> Error {
        let error = self.located(error);
        if error.is_out_of_space() {
            self.was_full.set(true);
        }
        error
    }

    /// Returns the transaction of the engine.
    pub(crate) fn into_engine(self) -> EngineTx<'t> {
        self.tx
    }

    fn step<R>(&self, step: impl FnOnce(&Tx<'_, Medium>) -> EngineResult<R>) -> EngineResult<R> {
        match &self.tx {
            EngineTx::Closure(tx) => step(tx),
            EngineTx::Open(tx) => tx.step(step),
        }
    }

    fn in_table<R>(
        &self,
        step: impl FnOnce(&Trees<'_, Medium>, &Tx<'_, Medium>) -> EngineResult<R>,
    ) -> Result<R> {
        self.apply_deferred()?;
        let done = self.step(|tx| {
            if self.table.get().is_null() {
                self.table.set(self.pool.table_in(tx)?);
            }
            let trees = match self.table.get() {
                PoolOffset::NULL => Trees::open(self.heap, PoolOffset::NULL)?,
                table => Trees::open_in(self.heap, tx, table)?,
            };
            step(&trees, tx)
        });
        done.map_err(|error| self.failed(error))
    }

    /// Makes the table of trees, if there is none.
    fn make_table(&self) -> Result<()> {
        if !self.table.get().is_null() {
            return Ok(());
        }
        let made = self.step(|tx| self.pool.table_or_create_in(tx)).map_err(|error| self.failed(error))?;
        self.table.set(made.ok_or_else(|| self.located(Error::new(Kind::NoRoot)))?);
        Ok(())
    }

    fn in_tree<R>(
        &self,
        root: PoolOffset,
        step: impl FnOnce(&Tree<'_, Medium>, &Tx<'_, Medium>) -> EngineResult<R>,
    ) -> Result<R> {
        self.apply_deferred()?;
        self.in_tree_as_it_is(root, step)
    }

    /// Does a step in a tree that does not show the deletions that were deferred.
    fn in_tree_as_it_is<R>(
        &self,
        root: PoolOffset,
        step: impl FnOnce(&Tree<'_, Medium>, &Tx<'_, Medium>) -> EngineResult<R>,
    ) -> Result<R> {
        if self.gone.borrow().contains(&root) {
            return Err(self.located(Error::new(Kind::NoTree)));
        }
        let done = self.step(|tx| step(&Tree::open_in(self.heap, tx, root)?, tx));
        done.map_err(|error| self.failed(error))
    }

    /// Makes the deletions that were deferred. After an error the transaction will be rolled back, since the caller was
    /// told that they are made.
    #[inline]
    pub(crate) fn apply_deferred(&self) -> Result<()> {
        if self.deferred.borrow().is_empty() { Ok(()) } else { self.apply_deferred_now() }
    }

    fn apply_deferred_now(&self) -> Result<()> {
        let mut deferred = self.deferred.take();
        let delete = |tree: &Tree<'_, _>, tx: &Tx<'_, _>| tree.delete_sorted_in(tx, &deferred.sorted_keys());
        let deleted = self.in_tree_as_it_is(deferred.root(), delete);
        deferred.clear();
        self.deferred.replace(deferred);
        deleted.map(drop).inspect_err(|_| self.set_rollback_only())
    }

    fn set_rollback_only(&self) {
        let _ = self.step(|tx| {
            tx.set_rollback_only();
            Ok(())
        });
    }

    /// Returns a number that grows with each change of the engine.
    #[cfg(test)]
    pub(crate) fn engine_changes(&self) -> u64 {
        self.step(|tx| Ok(tx.changes())).unwrap_or(0)
    }

    /// Returns a number that grows with each change.
    pub(crate) fn edits(&self) -> u64 {
        self.edits.get()
    }

    fn note_edit(&self) {
        self.edits.set(self.edits.get() + 1);
    }

    pub(crate) fn find(&self, name: &str) -> Result<Option<NamedTree>> {
        self.in_table(|trees, tx| trees.get_in(tx, name))
    }

    pub(crate) fn names(&self) -> Result<Vec<String>> {
        self.in_table(|trees, tx| trees.names_in(tx))
    }

    pub(crate) fn create(&self, name: &str, types: [&str; 2]) -> Result<NamedTree> {
        self.note_edit();
        self.apply_deferred()?;
        self.make_table()?;
        let tree = self.in_table(|trees, tx| trees.create_in(tx, name, types[0], types[1]))?;
        self.gone.borrow_mut().retain(|gone| *gone != tree.root);
        self.record(|| Undo::Created { name: name.to_owned(), root: tree.root });
        Ok(tree)
    }

    pub(crate) fn drop_tree(&self, name: &str) -> Result<bool> {
        self.note_edit();
        let dropped = self.in_table(|trees, tx| trees.drop_in(tx, name));
        let Some(tree) = dropped.map_err(|error| error.in_tree(name))? else { return Ok(false) };
        self.has_dropped.set(true);
        self.gone.borrow_mut().push(tree.root);
        self.record(|| Undo::Dropped { name: name.to_owned(), tree });
        Ok(true)
    }

    pub(crate) fn rename(&self, old: &str, new: &str) -> Result<()> {
        self.note_edit();
        let renamed = self.in_table(|trees, tx| trees.rename_in(tx, old, new));
        if !renamed.map_err(|error| error.in_tree(new))? {
            return Err(self.located(Error::new(Kind::NoTree).in_tree(old)));
        }
        self.record(|| Undo::Renamed { old: old.to_owned(), new: new.to_owned() });
        Ok(())
    }

    pub(crate) fn get(&self, root: PoolOffset, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.in_tree(root, |tree, tx| tree.get_in(tx, key))
    }

    pub(crate) fn count(&self, root: PoolOffset) -> Result<u64> {
        self.in_tree(root, |tree, tx| tree.count_in(tx))
    }

    /// Passes the entries between the bounds to `take`, until that returns false. Shows no deletion that was deferred.
    pub(crate) fn scan(
        &self,
        root: PoolOffset,
        bounds: KeyBounds,
        direction: Direction,
        take: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<()> {
        self.in_tree_as_it_is(root, |tree, tx| take_entries(tree.range_in(tx, bounds)?, direction, take))
    }

    /// Gives `key` a value. Returns true if it had one.
    pub(crate) fn put(&self, root: PoolOffset, key: &[u8], value: &[u8]) -> Result<bool> {
        self.change_key(root, key, |tree, tx| tree.insert_in(tx, key, value))
    }

    /// Gives keys that ascend, and that the tree has not, their values.
    pub(crate) fn put_sorted(&self, root: PoolOffset, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        self.note_edit();
        self.in_tree(root, |tree, tx| tree.insert_sorted_in(tx, pairs))?;
        for (key, _) in pairs {
            self.record(|| Undo::Key { root, key: key.to_vec(), old: None });
        }
        Ok(())
    }

    /// Removes `key`. Returns true if it was there.
    pub(crate) fn delete(&self, root: PoolOffset, key: &[u8]) -> Result<bool> {
        self.change_key(root, key, |tree, tx| tree.delete_in(tx, key))
    }

    /// Removes `key`, which the transaction has read, before it does anything else, scans apart that end before the key or
    /// begin after it.
    pub(crate) fn delete_later(&self, root: PoolOffset, key: &[u8]) -> Result<()> {
        if self.is_recording() {
            return self.delete(root, key).map(drop);
        }
        if !self.deferred.borrow().has_room(root) {
            self.apply_deferred()?;
        }
        self.note_edit();
        self.deferred.borrow_mut().push(root, key);
        Ok(())
    }

    fn change_key(
        &self,
        root: PoolOffset,
        key: &[u8],
        change: impl FnOnce(&Tree<'_, Medium>, &Tx<'_, Medium>) -> EngineResult<bool>,
    ) -> Result<bool> {
        self.note_edit();
        let old = if self.is_recording() { Some(self.get(root, key)?) } else { None };
        let was_there = self.in_tree(root, change)?;
        if let Some(old) = old {
            self.record(|| Undo::Key { root, key: key.to_owned(), old });
        }
        Ok(was_there)
    }

    fn is_recording(&self) -> bool {
        !self.undo.borrow().savepoints.is_empty()
    }

    fn record(&self, undo: impl FnOnce() -> Undo) {
        if self.is_recording() {
            self.undo.borrow_mut().steps.push(undo());
        }
    }

    /// Makes a savepoint, and returns its number.
    pub(crate) fn savepoint(&self) -> u64 {
        static NUMBER: Counter = Counter::new(1);
        let undo = &mut *self.undo.borrow_mut();
        let number = NUMBER.add(1);
        undo.savepoints.push((number, undo.steps.len()));
        number
    }

    /// Takes all changes since the savepoint back. The savepoint stays, and those made after it are gone.
    pub(crate) fn roll_back_to(&self, number: u64) -> Result<()> {
        let found = self.undo.borrow().savepoints.iter().position(|(known, _)| *known == number);
        let Some(index) = found else { return Err(self.located(Error::new(Kind::SavepointGone))) };
        let steps = {
            let undo = &mut *self.undo.borrow_mut();
            undo.savepoints.truncate(index + 1);
            let len = undo.savepoints[index].1;
            undo.steps.split_off(len)
        };
        steps.into_iter().rev().try_for_each(|step| self.take_back(step)).inspect_err(|_| {
            // A part was taken back.
            self.set_rollback_only();
        })
    }

    fn take_back(&self, step: Undo) -> Result<()> {
        self.note_edit();
        match step {
            // The tree may have been dropped since the change; its drop was taken back before.
            Undo::Key { root, key, old: Some(old) } => {
                self.in_tree(root, |tree, tx| tree.insert_in(tx, &key, &old)).map(drop)
            }
            Undo::Key { root, key, old: None } => {
                self.in_tree(root, |tree, tx| tree.delete_in(tx, &key)).map(drop)
            }
            Undo::Created { name, root } => {
                self.gone.borrow_mut().push(root);
                self.in_table(|trees, tx| trees.undo_create_in(tx, &name, root))
            }
            Undo::Dropped { name, tree } => {
                self.gone.borrow_mut().retain(|gone| *gone != tree.root);
                self.in_table(|trees, tx| trees.undo_drop_in(tx, &name, &tree))
            }
            Undo::Renamed { old, new } => {
                self.in_table(|trees, tx| trees.rename_in(tx, &new, &old)).map(drop)
            }
        }
    }
}
