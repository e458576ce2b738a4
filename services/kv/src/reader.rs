//! A tree of a pool for reading, in use by another process or not.

use crate::error::KvError;
use crate::proof;
use crate::store::{load_progress_at, tree_at};
use lode_follow::{Followed, ServedScan};
use lode_index::{Direction, Entry, Value};
use lode_layout::{KV_LOAD_OFF, KV_LOAD_WORDS, KvLoad, PoolOffset, TREE_CELLS_OFF};
use std::ops::Bound;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Keys and values for reading: those of a pool of the layout `kv`, or of one tree of a pool of the layout `store`. They
/// are those of one commit, as the process serves it that has the pool open for writing; or opened by this process, if
/// none has.
#[derive(Clone, Debug)]
pub struct StoreReader {
    pool: Arc<Followed>,
    /// Offset of the root object of the tree. Null in a pool without a tree.
    root: PoolOffset,
}

impl StoreReader {
    /// Returns the reader of a pool with the layout `kv`.
    ///
    /// # Errors
    /// [`KvError::Index`] if there is no tree at the root of the pool.
    pub fn new(pool: Followed) -> Result<StoreReader, KvError> {
        StoreReader::of_root(Arc::new(pool))
    }

    /// Returns the reader of the tree at the root of the pool: in a pool of the layout `store`, the table of trees.
    pub(crate) fn of_root(pool: Arc<Followed>) -> Result<StoreReader, KvError> {
        let root = match &*pool {
            Followed::Opened(pool) => pool.heap().root()?,
            Followed::Served(served) => served.root(),
        };
        StoreReader::at(pool, root)
    }

    /// Returns the reader of the tree whose root object is at `root`.
    pub(crate) fn at(pool: Arc<Followed>, root: PoolOffset) -> Result<StoreReader, KvError> {
        if let Followed::Opened(pool) = &*pool {
            tree_at(pool.heap(), root)?;
        }
        Ok(StoreReader { pool, root })
    }

    /// Returns the offset of the root object of the tree.
    pub(crate) fn root(&self) -> PoolOffset {
        self.root
    }

    /// Returns true if another process serves the store.
    pub fn is_served(&self) -> bool {
        matches!(*self.pool, Followed::Served(_))
    }

    /// Returns a copy of the value of `key`, as [`Store::get`](crate::Store::get) does.
    ///
    /// # Errors
    /// [`KvError::Index`] and [`KvError::Follow`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        match &*self.pool {
            Followed::Opened(pool) => Ok(tree_at(pool.heap(), self.root)?.get(key)?),
            Followed::Served(served) => Ok(served.get(self.root, key)?.map(Value::into_vec)),
        }
    }

    /// Returns a copy of the value of `key`, and proves `None`, as [`Store::get_proven`](crate::Store::get_proven) does.
    ///
    /// # Errors
    /// As [`Store::get_proven`](crate::Store::get_proven), and [`KvError::Follow`].
    ///
    /// # Cost
    /// That of a lookup if the key is present. Else each entry of the tree is read, and transferred if it is served.
    pub fn get_proven(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        // The pool is open for reading, so no thread changes it.
        if let Followed::Opened(pool) = &*self.pool {
            return proof::get_proven(&tree_at(pool.heap(), self.root)?, key);
        }
        let found = self.get(key)?;
        if found.is_none() {
            self.count_proven()?;
        }
        Ok(found)
    }

    /// Returns the number of keys as the tree has counted them. It is not proved.
    ///
    /// # Errors
    /// [`KvError::Index`] and [`KvError::Follow`].
    pub fn count(&self) -> Result<u64, KvError> {
        match &*self.pool {
            Followed::Opened(pool) => Ok(tree_at(pool.heap(), self.root)?.count()?),
            Followed::Served(served) => Ok(served.count(self.root)?),
        }
    }

    /// Returns the number of keys, which is proved, as by [`Store::count_proven`](crate::Store::count_proven).
    ///
    /// # Errors
    /// As [`Store::count_proven`](crate::Store::count_proven), and [`KvError::Follow`].
    ///
    /// # Cost
    /// Reads each node once. Each entry of a served tree is read and transferred.
    pub fn count_proven(&self) -> Result<u64, KvError> {
        if let Followed::Opened(pool) = &*self.pool {
            return proof::count_proven(&tree_at(pool.heap(), self.root)?);
        }
        let at = self.root.plus(TREE_CELLS_OFF);
        let counted = self.count()?;
        let (mut found, mut damage) = (0, None);
        self.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward, |entry| {
            found += 1;
            damage = entry.err();
            damage.is_none()
        })?;
        match damage {
            Some(error) => Err(error),
            None if found != counted => Err(KvError::Count { counted, found, at }),
            None => Ok(counted),
        }
    }

    /// Proves that the tree hides no key. Each entry is read, and transferred if it is served.
    pub(crate) fn prove(&self) -> Result<(), KvError> {
        match &*self.pool {
            Followed::Opened(pool) => Ok(proof::prove(&tree_at(pool.heap(), self.root)?)?),
            Followed::Served(_) => self.count_proven().map(drop),
        }
    }

    /// Passes the entries of a range of keys in a direction, and the damage among them, to `take`, until that returns false. Returns true
    /// if there are no others.
    ///
    /// # Errors
    /// [`KvError::Index`] and [`KvError::Follow`], except for damage.
    pub fn scan(
        &self,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        direction: Direction,
        take: impl FnMut(Result<Entry, KvError>) -> bool,
    ) -> Result<bool, KvError> {
        match &*self.pool {
            Followed::Opened(pool) => {
                let reader = tree_at(pool.heap(), self.root)?.reader();
                let mut range = reader.range(bounds);
                pass_on(|| direction.next(&mut range), take)
            }
            Followed::Served(served) => {
                let mut scan = ServedScan::over(self.root, bounds);
                pass_on(|| scan.next(served, direction), take)
            }
        }
    }

    /// Returns the progress of the last load, as [`Store::load_progress`](crate::Store::load_progress) does. A tree of the
    /// layout `store` has none.
    ///
    /// # Errors
    /// [`KvError::Load`]; [`KvError::Index`] and [`KvError::Follow`].
    pub fn load_progress(&self) -> Result<Option<KvLoad>, KvError> {
        if self.root.is_null() {
            return Ok(None);
        }
        let at = self.root.plus(KV_LOAD_OFF);
        match &*self.pool {
            Followed::Opened(pool) => load_progress_at(pool.heap(), at),
            Followed::Served(served) => {
                let mut words = [0; KV_LOAD_WORDS];
                served.read(at, words.as_mut_bytes())?;
                KvLoad::decode(&words).map_err(|_| KvError::Load { at })
            }
        }
    }
}

/// Passes the entries that `next` returns to `take`, until that returns false. Returns true if there are no others.
fn pass_on<E>(
    mut next: impl FnMut() -> Option<Result<Entry, E>>,
    mut take: impl FnMut(Result<Entry, KvError>) -> bool,
) -> Result<bool, KvError>
where
    KvError: From<E>,
{
    while let Some(entry) = next() {
        let entry = match entry.map_err(KvError::from) {
            Err(error) if !error.is_damage() => return Err(error),
            entry => entry,
        };
        if !take(entry) {
            return Ok(false);
        }
    }
    Ok(true)
}
