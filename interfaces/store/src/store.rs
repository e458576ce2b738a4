//! Stores.

use crate::closure::run_closure;
use crate::committed;
use crate::error::{Error, Kind, Result};
use crate::frozen::Frozen;
use crate::later::Ticket;
use crate::options::Options;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::span::span;
use crate::transaction::Transaction;
use crate::tree_def::TreeDef;
use crate::tree_pool::TreePool;
use crate::value::{AsValue, Value};
use lode_fsck::{ShrinkError, shrink_pool};
use lode_heap::{HeapError, LogPosition, Pool, SnapshotStats, Tx};
use lode_index::{IndexError, StoreLayout, Trees};
use lode_layout::{AsKey, Key, LayoutName, PoolOffset};
use lode_pool::{Access, CreateOptions, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Named trees of sorted keys in one file, or in persistent memory. Any number of threads read and write at once.
///
/// A clone is another handle of the same store. The last handle, snapshot or iterator that is dropped closes it.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

impl Options {
    /// Opens the store at `path`, or makes it.
    ///
    /// # Errors
    /// [`is_in_use`](Error::is_in_use), [`is_not_a_store`](Error::is_not_a_store),
    /// [`is_volatile`](Error::is_volatile), [`is_out_of_space`](Error::is_out_of_space),
    /// [`is_damage`](Error::is_damage), or an error of the system.
    ///
    /// # Durability
    /// A new store and its name are durable on return. In one that was not closed, all transactions that had returned
    /// are there, except for the last ones of [`write_later`](Store::write_later) that were not durable.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref();
        match self.open_existing(path) {
            Err(error) if error.is_not_found() => match self.create_new(path) {
                // Another process was faster.
                Err(error) if error.is_already_exists() => self.open_existing(path),
                created => created,
            },
            opened => opened,
        }
    }

    /// Opens the store at `path`, which exists.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found), and those of [`open`](Options::open).
    pub fn open_existing(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.open_for(path.as_ref(), Access::ReadWrite)
    }

    /// Opens the store at `path` for reading. Several processes may do so at once, none of them beside one that writes.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found), and those of [`open`](Options::open).
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.open_for(path.as_ref(), Access::ReadOnly)
    }

    /// Makes a store at `path`, where there is no file.
    ///
    /// # Errors
    /// [`is_already_exists`](Error::is_already_exists), and those of [`open`](Options::open). No file is left then.
    pub fn create_new(&self, path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref();
        let _span = span!("create", path = %path.display());
        let defaults = CreateOptions::new(self.size, layout_name());
        let size_max = self.size_max.or(defaults.size_max);
        let options = CreateOptions { size_max, durability: self.durability, ..defaults };
        let pool = Pool::create_with::<Error>(path, &options, |heap| {
            heap.run(|tx| Trees::create(tx).map(drop))
                .map_err(|error: IndexError| Error::from(error).at(path))
        })?;
        self.finish(pool)
    }

    /// Shrinks the closed store at `path` to about what its trees take, and returns its size in bytes.
    /// Objects near the end of the file move to free space before them, so no other space is needed. The space of dropped
    /// trees is given back first. Only the options for opening count.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found), and those of [`open`](Options::open); [`is_in_use`](Error::is_in_use) also while
    /// a snapshot, an iterator, or a reader in another process has the store open; [`is_damage`](Error::is_damage), since
    /// moved objects overwrite what a repair would look for. The store has all its content then.
    ///
    /// # Durability
    /// The new size is durable on return. A crash before that leaves a store with all its content, of the old or the new
    /// size.
    ///
    /// # Cost
    /// Reads and verifies all keys and values once, and again in each of at most 12 passes, and moves as many
    /// bytes as the file has too much. A store that has little free space has no pass.
    pub fn shrink(&self, path: impl AsRef<Path>) -> Result<u64> {
        let path = path.as_ref();
        let _span = span!("shrink", path = %path.display());
        let options = self.open_options(Access::ReadWrite);
        let shrunk = shrink_pool(path, &options, &[&StoreLayout], &()).map_err(|error| match error {
            ShrinkError::Open(error) => Error::from(error),
            ShrinkError::Layout(error) => match error.downcast::<IndexError>() {
                Ok(error) => Error::from(*error).at(path),
                Err(error) => Error::other(error),
            },
            ShrinkError::Damaged { finding } => {
                Error::from(IndexError::Corrupt { what: finding.what, at: finding.at }).at(path)
            }
            error => Error::other(error),
        })?;
        Ok(shrunk.size)
    }

    fn open_for(&self, path: &Path, access: Access) -> Result<Store> {
        let _span = span!("open", path = %path.display());
        self.finish(Pool::open(path, &self.open_options(access))?)
    }

    fn open_options(&self, access: Access) -> OpenOptions {
        let layout = Some(layout_name());
        OpenOptions { durability: self.durability, layout, ..OpenOptions::new(access) }
    }

    fn finish(&self, pool: Pool) -> Result<Store> {
        let path = pool.path().to_owned();
        if let Some(bytes) = self.snapshot_memory {
            pool.heap().set_snapshot_memory_max(bytes);
        }
        if let Some(bytes) = self.later_bytes {
            pool.heap().set_waiting_max(bytes);
        }
        Store::of_pool(pool, self.later_interval).map_err(|error| error.at(&path))
    }
}

pub(crate) fn layout_name() -> LayoutName {
    LayoutName::new(StoreLayout::NAME).expect("a layout name")
}

impl Store {
    /// Opens the store at `path`, or makes it, with the options that [`options`](Store::options) returns.
    ///
    /// # Errors
    /// As [`Options::open`].
    ///
    /// # Durability
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Options::new().open(path)
    }

    /// Shrinks the closed store at `path` with the options that [`options`](Store::options) returns.
    /// Returns its size in bytes.
    ///
    /// # Errors
    /// As [`Options::shrink`].
    ///
    /// # Durability
    /// As [`Options::shrink`].
    ///
    /// # Cost
    /// As [`Options::shrink`].
    pub fn shrink(path: impl AsRef<Path>) -> Result<u64> {
        Options::new().shrink(path)
    }

    /// Returns options for opening a store.
    pub fn options() -> Options {
        Options::new()
    }

    pub(crate) fn of_pool(pool: Pool, later_interval: Duration) -> Result<Store> {
        let heap = pool.heap();
        let mut table = heap.root()?;
        if table.is_null() && !heap.is_read_only() {
            // Pools that `lode pool create --layout store` has made have no content.
            table = heap.run(|tx| match tx.root()? {
                PoolOffset::NULL => Trees::create(tx),
                root => Ok(root),
            })?;
        }
        if let Err(IndexError::NoTree { .. }) = Trees::open(heap, table) {
            return Err(Error::new(Kind::NotAStore));
        }
        Ok(Store { shared: Arc::new(Shared::new(pool, table, later_interval)?) })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the path of the socket at which other processes [follow](Store::follow) the store.
    ///
    /// # Errors
    /// The reason why they can't: such as a folder in which no socket can be made, or a store that is open for reading.
    pub fn socket(&self) -> std::result::Result<&Path, &(dyn std::error::Error + Send + Sync)> {
        self.shared.socket().map_err(|error| error as _)
    }

    /// Returns the path of the store.
    pub fn path(&self) -> &Path {
        self.shared.pool().path()
    }

    /// Returns the size of the store in bytes: its file is about as long.
    pub fn size(&self) -> u64 {
        self.shared.pool().header().geometry.size()
    }

    /// Runs `closure` as a transaction. All its changes are durable when this returns `Ok`. None is made when it returns
    /// an error, or panics.
    ///
    /// The closure may be called several times: it starts again when another transaction has changed what it read, or
    /// kept what it needed. Its effects outside of the store must therefore bear repetition. A closure that is started
    /// again often locks out the transactions that it conflicts with, so it does not starve.
    ///
    /// # Errors
    /// The closure's error. [`is_in_transaction`](Error::is_in_transaction) inside of another transaction on this store;
    /// [`is_out_of_space`](Error::is_out_of_space), [`is_too_large`](Error::is_too_large),
    /// [`is_read_only`](Error::is_read_only), [`is_poisoned`](Error::is_poisoned), [`is_damage`](Error::is_damage). After
    /// [`is_in_doubt`](Error::is_in_doubt) the changes may or may not be there when the store is opened again.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain, or none if nothing was changed. The time grows with the number of changes. A long transaction has a second
    /// drain; its log takes at most 72 bytes for each line of 64 bytes that it changed in older objects, of the free space of
    /// the file, which are free again after the next checkpoint. It may take half of that space.
    ///
    /// # Example
    /// ```
    /// use lodestone::{Error, Store, TreeDef};
    ///
    /// const ACCOUNTS: TreeDef<String, u64> = TreeDef::new("accounts");
    ///
    /// fn transfer(store: &Store, from: &str, to: &str, sum: u64) -> lodestone::Result<()> {
    ///     store.write(|tx| {
    ///         let accounts = tx.tree(ACCOUNTS)?;
    ///         let left = accounts.get(from)?.unwrap_or(0).checked_sub(sum);
    ///         let left = left.ok_or_else(|| Error::other("the account has too little"))?;
    ///         accounts.put(from, left)?;
    ///         accounts.update(to, |old| Some(old.unwrap_or(0) + sum))?;
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn write<R>(&self, closure: impl FnMut(&Transaction<'_>) -> Result<R>) -> Result<R> {
        self.try_write(closure)
    }

    /// Runs `closure` as [`write`](Store::write) does, with an error type of the caller.
    ///
    /// # Errors
    /// As [`write`](Store::write), converted.
    pub fn try_write<R, E: From<Error>>(
        &self,
        closure: impl FnMut(&Transaction<'_>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let _span = span!("write");
        self.run_closure(closure, false).map(|(result, _)| result)
    }

    /// Runs `closure` as [`write`](Store::write) does, and returns before its changes are durable, with a [`Ticket`] that
    /// tells when they are. For changes of which the last ones may be lost with the power: logs, counters, caches, and what
    /// can be made again.
    ///
    /// Later transactions see the changes at once, and so does a closure that only reads. [`get`](Store::get),
    /// [`snapshot`](Store::snapshot), [`read`](Store::read) and [`follow`](Store::follow) see what is durable;
    /// [`make_durable`](Store::make_durable) before them shows all that has returned.
    ///
    /// # Errors
    /// Those of [`write`](Store::write). A sync that fails later is an error of the ticket, and of all later transactions that
    /// change something.
    ///
    /// # Durability
    /// None on return. After a crash the store has all transactions up to some moment, in the order in which they were
    /// committed, whichever of them have waited. So a transaction of `write` makes all earlier ones durable, and so do
    /// [`make_durable`](Store::make_durable), [`close`](Store::close) and dropping the store. Otherwise a thread of the store
    /// makes them durable after [100 ms](crate::Options::later_interval), or as soon as much of the log
    /// [waits](crate::Options::later_bytes).
    ///
    /// In persistent memory, at [`Durability::Line`](crate::Durability::Line) and
    /// [`Byte`](crate::Durability::Byte), the transaction is durable on return, since its one fence costs less than a
    /// promise.
    ///
    /// # Cost
    /// No wait, except for a transaction that makes the file grow, stores or removes a value of more than about 32 KiB, changes
    /// more than 64 KiB, drops a tree, or finds too much waiting; it then waits as `write` does. So does a closure that fails after it has read what waits.
    /// When half of the log is full, one makes a checkpoint, as one of `write` does. While space of dropped trees is left to
    /// give back, each gives back a part. Beside transactions that wait, reads of a transaction take longer.
    ///
    /// # Example
    /// ```
    /// # use lodestone::{Durability, Store, TreeDef};
    /// # fn main() -> lodestone::Result<()> {
    /// # let folder = tempfile::tempdir().map_err(lodestone::Error::other)?;
    /// # let store = Store::options().durability(Durability::Commit).open(folder.path().join("hits"))?;
    /// const HITS: TreeDef<String, u64> = TreeDef::new("hits");
    ///
    /// let count = |page: &str| {
    ///     store.write_later(|tx| tx.tree(HITS)?.update(page, |hits| Some(hits.unwrap_or(0) + 1)))
    /// };
    /// count("/")?;
    /// let (_, ticket) = count("/about")?;
    /// ticket.wait()?; // Both are durable.
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_later<R>(&self, closure: impl FnMut(&Transaction<'_>) -> Result<R>) -> Result<(R, Ticket)> {
        self.try_write_later(closure)
    }

    /// Runs `closure` as [`write_later`](Store::write_later) does, with an error type of the caller.
    ///
    /// # Errors
    /// As [`write_later`](Store::write_later), converted.
    ///
    /// # Durability
    /// As [`write_later`](Store::write_later).
    pub fn try_write_later<R, E: From<Error>>(
        &self,
        closure: impl FnMut(&Transaction<'_>) -> std::result::Result<R, E>,
    ) -> std::result::Result<(R, Ticket), E> {
        let _span = span!("write_later");
        let (result, position) = self.run_closure(closure, true)?;
        Ok((result, self.shared.ticket(position)?))
    }

    /// Makes all transactions durable that have returned.
    ///
    /// # Errors
    /// [`is_in_doubt`](Error::is_in_doubt) after a failed sync.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// None if they are durable; otherwise a synced write.
    pub fn make_durable(&self) -> Result<()> {
        let heap = self.shared.heap();
        heap.make_durable(heap.log_position()).map_err(|error| self.shared.located(error))
    }

    /// Runs `closure` as a transaction. `is_later`: it may return before it is durable.
    fn run_closure<R, E: From<Error>>(
        &self,
        mut closure: impl FnMut(&Transaction<'_>) -> std::result::Result<R, E>,
        is_later: bool,
    ) -> std::result::Result<(R, LogPosition), E> {
        self.check_outside()?;
        let shared = &*self.shared;
        run_closure(shared, |last| {
            let closure = |tx: &Tx<'_, _>| {
                let transaction = Transaction::of_closure(shared, tx);
                let result = closure(&transaction);
                last.end(transaction.changes(), result)
            };
            match is_later {
                true => shared.heap().run_later(closure),
                false => shared.heap().run(closure).map(|result| (result, LogPosition::default())),
            }
        })
    }

    /// Begins a transaction of the calling thread, for programs that can't run it as a closure. Its
    /// [`commit`](Transaction::commit) returns the conflict with another transaction instead of starting again.
    ///
    /// Until then, transactions of other threads that want to change the same keys or their neighbours start again, so the
    /// thread must not wait for such a thread meanwhile.
    ///
    /// # Errors
    /// [`is_in_transaction`](Error::is_in_transaction) if the thread is in a transaction on this store already;
    /// [`is_poisoned`](Error::is_poisoned) if the sync fails of those of [`write_later`](Store::write_later).
    ///
    /// # Cost
    /// None. A synced write if transactions of [`write_later`](Store::write_later) wait for theirs: it sees what has returned.
    ///
    /// # Example
    /// ```
    /// # use lodestone::{Durability, Store, TreeDef};
    /// # fn main() -> lodestone::Result<()> {
    /// # let folder = tempfile::tempdir().map_err(lodestone::Error::other)?;
    /// # let store = Store::options().durability(Durability::None).open(folder.path().join("log"))?;
    /// const EVENTS: TreeDef<u64, String> = TreeDef::new("events");
    ///
    /// loop {
    ///     let tx = store.begin()?;
    ///     let next = tx.tree(EVENTS)?.last()?.map_or(0, |(number, _)| number + 1);
    ///     tx.tree(EVENTS)?.put(next, "started")?;
    ///     match tx.commit() {
    ///         Err(error) if error.is_conflict() => continue,
    ///         done => break done?,
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn begin(&self) -> Result<Transaction<'_>> {
        let tx = self.shared.heap().begin().map_err(|error| self.shared.located(error))?;
        Ok(Transaction::open(&self.shared, tx))
    }

    /// Opens a snapshot: all trees at one commit, for reads of any length. It sees what is durable: all transactions of
    /// [`write`](Store::write) that have returned, and those of [`write_later`](Store::write_later) that a sync has reached.
    /// It hardly ever waits for a sync.
    ///
    /// # Errors
    /// [`is_in_transaction`](Error::is_in_transaction) inside of a transaction on this store, whose changes it would not
    /// see; [`is_poisoned`](Error::is_poisoned).
    ///
    /// # Cost
    /// That of [`Snapshot`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        let _span = span!("snapshot");
        Ok(Snapshot::new(Frozen::open(self.shared.clone())?))
    }

    /// Returns what open snapshots keep back: those of this store, of its iterators, and of its followers in other processes.
    ///
    /// # Cost
    /// Looks at all space that waits to be free.
    pub fn snapshot_stats(&self) -> SnapshotStats {
        self.shared.heap().snapshot_stats()
    }

    /// Calls `closure` with a snapshot: it reads all trees at one commit, and is called once.
    ///
    /// # Errors
    /// Those of [`snapshot`](Store::snapshot), and of the closure.
    pub fn read<R>(&self, closure: impl FnOnce(&Snapshot) -> Result<R>) -> Result<R> {
        closure(&self.snapshot()?)
    }

    /// Calls `closure` as [`read`](Store::read) does, with an error type of the caller.
    ///
    /// # Errors
    /// As [`read`](Store::read), converted.
    pub fn try_read<R, E: From<Error>>(
        &self,
        closure: impl FnOnce(&Snapshot) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        closure(&self.snapshot()?)
    }

    /// Returns the value of one key, without a snapshot: the quickest read. It sees what is durable, and so no
    /// [`write_later`](Store::write_later) before that.
    ///
    /// # Errors
    /// [`is_no_tree`](Error::is_no_tree), [`is_wrong_type`](Error::is_wrong_type); those of reads of a
    /// [`ReadTree`](crate::ReadTree). [`is_in_transaction`](Error::is_in_transaction) inside of a transaction, whose
    /// changes it would not see.
    ///
    /// # Cost
    /// Two lookups, that of the tree by its name and that of the key; a third one if there is no value. No lock.
    pub fn get<K: Key, V: Value>(&self, def: TreeDef<'_, K, V>, key: impl AsKey<K>) -> Result<Option<V>> {
        self.check_outside()?;
        let found = committed::get(self.shared.heap(), || self.shared.trees(), def, key);
        found.map_err(|error| self.shared.located(error))
    }

    /// Gives one key a value, in a transaction of its own. The tree is made if there is none. Returns true if the key had a
    /// value.
    ///
    /// # Errors
    /// Those of [`write`](Store::write) and of [`Transaction::tree`].
    ///
    /// # Durability
    /// Durable on return.
    pub fn put<K: Key, V: Value>(
        &self,
        def: TreeDef<'_, K, V>,
        key: impl AsKey<K>,
        value: impl AsValue<V>,
    ) -> Result<bool> {
        self.write(|tx| tx.tree(def)?.put(&key, &value))
    }

    /// Removes one key, in a transaction of its own. Returns true if it was there.
    ///
    /// # Errors
    /// Those of [`write`](Store::write); [`is_wrong_type`](Error::is_wrong_type).
    ///
    /// # Durability
    /// Durable on return.
    pub fn delete<K: Key, V: Value>(&self, def: TreeDef<'_, K, V>, key: impl AsKey<K>) -> Result<bool> {
        self.write(|tx| tx.get_tree(def)?.map_or(Ok(false), |tree| tree.delete(&key)))
    }

    /// Closes the store: all transactions are durable, and the next opening has nothing to recover. Tickets that are left
    /// have their answer.
    ///
    /// # Errors
    /// [`is_in_use`](Error::is_in_use) if clones, snapshots or iterators of the store are left: the last of them closes
    /// it. [`is_poisoned`](Error::is_poisoned) or [`is_in_doubt`](Error::is_in_doubt) after a failed sync.
    pub fn close(self) -> Result<()> {
        let path = self.path().to_owned();
        match Arc::try_unwrap(self.shared) {
            Ok(shared) => shared.close().map_err(|error| error.at(&path)),
            Err(_) => Err(Error::new(Kind::StillInUse).at(&path)),
        }
    }

    /// Refuses a call inside of a transaction that would not be a part of it.
    fn check_outside(&self) -> Result<()> {
        match self.shared.heap().in_transaction() {
            true => Err(self.shared.located(HeapError::InTransaction)),
            false => Ok(()),
        }
    }
}
