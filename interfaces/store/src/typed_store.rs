//! Pools that have typed data and named trees.

use crate::changes::{Changes, EngineTx};
use crate::closure::run_closure;
use crate::committed;
use crate::engine::{EngineResult, Medium};
use crate::error::{Error, Kind, Result};
use crate::frozen::Frozen;
use crate::reclaimer::Reclaimer;
use crate::snapshot::Snapshot;
use crate::span::span;
use crate::tree_def::TreeDef;
use crate::tree_pool::TreePool;
use crate::typed_transaction::TypedTransaction;
use crate::value::Value;
use lode_heap::structure::raw_tx;
use lode_heap::{Brand, Heap, HeapError, Snapshot as EngineSnapshot, Tx, TypedPool, TypedTx, raw_heap};
use lode_index::{Trees, TreesSnapshot};
use lode_layout::{AsKey, Key, PoolOffset};
use lode_pool::{CreateOptions, OpenOptions};
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// A typed pool that has named trees, too. One transaction changes both: all of it is there after a crash, or nothing.
///
/// It derefs to its [`TypedPool`]. So the root, guards, and transactions that change typed data alone are those of the pool, and
/// all transactions are serializable with each other. The trees are those of a [`Store`](crate::Store), with the same keys and
/// values. They belong to the pool, not to an object in it: the types of the pool do not name them, and a migration leaves them as
/// they are. A pool can have trees once it has a [root](lode_heap::TypedHeap::root_or_init).
///
/// ```
/// use lodestone::TreeDef;
/// use lodestone::typed::{CreateOptions, Durability, LayoutName, PCell, PVec, Persist, TypedStore};
///
/// lodestone::typed::brand!(Shop);
///
/// #[derive(Persist)]
/// #[persist(brand = Shop)]
/// #[repr(C)]
/// struct Root {
///     items: PVec<u32, Shop>,
///     sold: PCell<u64, Shop>,
/// }
///
/// /// The names of the items.
/// const NAMES: TreeDef<u32, String> = TreeDef::new("names");
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop.pool");
/// # let path = path.as_path();
/// let options = CreateOptions {
///     durability: Some(Durability::Commit),
///     ..CreateOptions::new(1 << 20, LayoutName::new("shop")?)
/// };
/// let store = TypedStore::<Shop>::create(path, &options)?;
/// let shop = store.root_or_init(|_| Ok(Root { items: PVec::new(), sold: PCell::new(0) }))?;
/// store.write(|tx| {
///     shop.items.push(tx, 7)?;
///     tx.tree(NAMES)?.put(7, "bolt")?;
///     Ok(())
/// })?;
///
/// assert_eq!(store.get(NAMES, 7)?.as_deref(), Some("bolt"));
/// assert_eq!(store.run(|tx| shop.items.to_vec(tx))?, [7]);
/// # Ok(())
/// # }
/// ```
pub struct TypedStore<B: Brand> {
    shared: Arc<TypedShared<B>>,
}

/// The pool, as the store and its snapshots share it. Dropping it closes the pool.
struct TypedShared<B: Brand> {
    /// `None` once it is closed.
    pool: Option<TypedPool<B>>,
    reclaimer: Reclaimer,
}

impl<B: Brand> TypedShared<B> {
    fn pool(&self) -> &TypedPool<B> {
        self.pool.as_ref().expect("only closing and dropping take the pool")
    }

    fn close(&mut self) -> Result<()> {
        self.pool.take().map_or(Ok(()), |pool| Ok(pool.close()?))
    }
}

impl<B: Brand> Drop for TypedShared<B> {
    fn drop(&mut self) {
        // A failure shows again when the pool is opened.
        let _ = self.close();
    }
}

impl<B: Brand> TreePool for TypedShared<B> {
    fn heap(&self) -> &Heap<Medium> {
        raw_heap(self.pool())
    }

    fn path(&self) -> &Path {
        self.pool().path()
    }

    fn trees(&self) -> EngineResult<Trees<'_, Medium>> {
        Trees::of_typed(self.heap())
    }

    fn reclaimer(&self) -> &Reclaimer {
        &self.reclaimer
    }

    fn table_in(&self, tx: &Tx<'_, Medium>) -> EngineResult<PoolOffset> {
        Trees::find_typed_in(tx)
    }

    fn table_or_create_in(&self, tx: &Tx<'_, Medium>) -> EngineResult<Option<PoolOffset>> {
        Trees::find_or_create_typed_in(tx)
    }

    fn table_at(&self, snapshot: &EngineSnapshot<'_, Medium>) -> EngineResult<PoolOffset> {
        TreesSnapshot::find_typed(snapshot)
    }
}

impl<B: Brand> TypedStore<B> {
    /// Puts the trees of an open pool beside its typed data. A pool that was made as a [`TypedPool`] can have trees from now on. A program
    /// whose types have changed calls [`migrate`](TypedPool::migrate) before.
    ///
    /// # Errors
    /// [`is_damage`](Error::is_damage) if the table of trees is damaged, or the root is not typed data. The typed data can be used
    /// by the [`TypedPool`] then.
    ///
    /// # Cost
    /// Two lookups.
    pub fn new(pool: TypedPool<B>) -> Result<TypedStore<B>> {
        let reads_dropped = |pool: &TypedPool<B>| {
            let heap = raw_heap(pool);
            Ok(!heap.is_read_only() && Trees::of_typed(heap)?.has_dropped()?)
        };
        let has_dropped = reads_dropped(&pool).map_err(|error: Error| error.at(pool.path()))?;
        let reclaimer = Reclaimer::new(has_dropped);
        Ok(TypedStore { shared: Arc::new(TypedShared { pool: Some(pool), reclaimer }) })
    }

    /// Makes a pool at `path` without a root, and opens it.
    ///
    /// # Errors
    /// As [`TypedPool::create`].
    ///
    /// # Durability
    /// As [`TypedPool::create`].
    pub fn create(path: &Path, options: &CreateOptions) -> Result<TypedStore<B>> {
        TypedStore::new(TypedPool::create(path, options)?)
    }

    /// Opens the pool at `path`.
    ///
    /// # Errors
    /// As [`TypedPool::open`] and [`new`](TypedStore::new).
    ///
    /// # Durability
    /// As [`TypedPool::open`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<TypedStore<B>> {
        TypedStore::new(TypedPool::open(path, options)?)
    }

    /// Runs `closure` as a transaction on typed data and trees. All its changes are durable when this returns `Ok`. None is made
    /// when it returns an error, or panics.
    ///
    /// The closure may be called several times, as that of [`Store::write`](crate::Store::write).
    ///
    /// # Errors
    /// The closure's error. [`is_in_transaction`](Error::is_in_transaction) inside of another transaction on this pool. Those of
    /// [`Store::write`](crate::Store::write).
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// One drain, or none if nothing was changed; a pin.
    pub fn write<R>(&self, closure: impl FnMut(&TypedTransaction<'_, B>) -> Result<R>) -> Result<R> {
        self.try_write(closure)
    }

    /// Runs `closure` as [`write`](TypedStore::write) does, with an error type of the caller.
    ///
    /// # Errors
    /// As [`write`](TypedStore::write), converted.
    ///
    /// # Durability
    /// As [`write`](TypedStore::write).
    pub fn try_write<R, E: From<Error>>(
        &self,
        mut closure: impl FnMut(&TypedTransaction<'_, B>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let _span = span!("write");
        self.check_outside()?;
        let shared = &*self.shared;
        run_closure(shared, |last| {
            shared.pool().try_run(|tx: &TypedTx<'_, B>| {
                let changes = Changes::new(shared, EngineTx::Closure(raw_tx(tx)));
                let transaction = TypedTransaction::new(tx, changes);
                let result = closure(&transaction);
                last.end(transaction.changes(), result)
            })
        })
    }

    /// Opens a snapshot of the trees at one durable commit, for reads of any length. Typed data has no snapshots: a transaction that only
    /// reads sees both at one commit.
    ///
    /// # Errors
    /// As [`Store::snapshot`](crate::Store::snapshot).
    ///
    /// # Cost
    /// That of [`Snapshot`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        let _span = span!("snapshot");
        Ok(Snapshot::new(Frozen::open(self.shared.clone())?))
    }

    /// Returns the value of one key as it was last committed, without a snapshot.
    ///
    /// # Errors
    /// As [`Store::get`](crate::Store::get).
    ///
    /// # Cost
    /// That of [`Store::get`](crate::Store::get), and a lookup of the table of trees.
    pub fn get<K: Key, V: Value>(&self, def: TreeDef<'_, K, V>, key: impl AsKey<K>) -> Result<Option<V>> {
        self.check_outside()?;
        let found = committed::get(self.shared.heap(), || self.shared.trees(), def, key);
        found.map_err(|error| self.located(error))
    }

    /// Closes the pool: all write-backs are durable, and the next opening has nothing to replay.
    ///
    /// # Errors
    /// [`is_in_use`](Error::is_in_use) if snapshots or their iterators are left: the last of them closes the pool. As
    /// [`TypedPool::close`].
    pub fn close(self) -> Result<()> {
        let path = self.path().to_owned();
        match Arc::try_unwrap(self.shared) {
            Ok(mut shared) => shared.close(),
            Err(_) => Err(Error::new(Kind::StillInUse).at(&path)),
        }
    }

    fn located(&self, error: impl Into<Error>) -> Error {
        error.into().at(self.path())
    }

    /// Refuses a call inside of a transaction that would not be a part of it.
    fn check_outside(&self) -> Result<()> {
        match self.shared.heap().in_transaction() {
            true => Err(self.located(HeapError::InTransaction)),
            false => Ok(()),
        }
    }
}

impl<B: Brand> fmt::Debug for TypedStore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedStore").field(&self.path()).finish()
    }
}

impl<B: Brand> Deref for TypedStore<B> {
    type Target = TypedPool<B>;

    fn deref(&self) -> &TypedPool<B> {
        self.shared.pool()
    }
}
