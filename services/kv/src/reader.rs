//! A store for reading, in use by another process or not.

use crate::error::KvError;
use crate::store::Store;
use lode_follow::{Connection, Followed, ServedScan};
use lode_index::{Direction, Entry, Value};
use lode_layout::{KV_LOAD_OFF, KV_LOAD_WORDS, KvLoad, PoolOffset, TREE_CELLS_OFF};
use std::ops::Bound;
use std::path::Path;
use zerocopy::IntoBytes;

/// A store for reading: at one commit, as the process serves it that has it open for writing; or opened by this process,
/// if none has.
#[derive(Debug)]
pub struct StoreReader {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Opened(Store),
    Served(Connection),
}

impl StoreReader {
    /// Opens the store at `path`. A store that is in use is not kept from its writer, and one that is not in use can't be
    /// opened for writing until the reader is dropped.
    ///
    /// # Errors
    /// [`KvError::Follow`] and [`KvError::Pool`], as [`Followed::open`].
    pub fn open(path: &Path) -> Result<StoreReader, KvError> {
        StoreReader::new(Followed::open(path, Some(Store::layout_name()))?)
    }

    /// Returns the reader of a pool with the layout `kv`.
    ///
    /// # Errors
    /// As [`Store::from_pool`].
    pub fn new(pool: Followed) -> Result<StoreReader, KvError> {
        let source = match pool {
            Followed::Opened(pool) => Source::Opened(Store::from_pool(*pool)?),
            Followed::Served(connection) => Source::Served(connection),
        };
        Ok(StoreReader { source })
    }

    /// Returns true if another process serves the store.
    pub fn is_served(&self) -> bool {
        matches!(self.source, Source::Served(_))
    }

    /// Returns a copy of the value of `key`, as [`Store::get`] does.
    ///
    /// # Errors
    /// [`KvError::Index`] and [`KvError::Follow`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        match &self.source {
            Source::Opened(store) => store.get(key),
            Source::Served(served) => Ok(served.get(served.root(), key)?.map(Value::into_vec)),
        }
    }

    /// Returns a copy of the value of `key`, and proves `None`, as [`Store::get_proven`] does.
    ///
    /// # Errors
    /// As [`Store::get_proven`], and [`KvError::Follow`].
    ///
    /// # Cost
    /// That of a lookup if the key is present. Else each entry of the store is read, and transferred if it is served.
    pub fn get_proven(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        if let Source::Opened(store) = &mut self.source {
            return store.get_proven(key);
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
        match &self.source {
            Source::Opened(store) => store.count(),
            Source::Served(served) => Ok(served.count(served.root())?),
        }
    }

    /// Returns the number of keys, which is proved, as by [`Store::count_proven`].
    ///
    /// # Errors
    /// As [`Store::count_proven`], and [`KvError::Follow`].
    ///
    /// # Cost
    /// Reads each node once. Each entry of a served store is read and transferred.
    pub fn count_proven(&mut self) -> Result<u64, KvError> {
        let served = match &mut self.source {
            Source::Opened(store) => return store.count_proven(),
            Source::Served(served) => served,
        };
        let at = served.root().plus(TREE_CELLS_OFF);
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
        match &self.source {
            Source::Opened(store) => {
                let reader = store.tree()?.reader();
                let mut range = reader.range(bounds);
                pass_on(|| direction.next(&mut range), take)
            }
            Source::Served(served) => {
                let mut scan = ServedScan::over(served.root(), bounds);
                pass_on(|| scan.next(served, direction), take)
            }
        }
    }

    /// Returns the progress of the last load, as [`Store::load_progress`] does.
    ///
    /// # Errors
    /// [`KvError::Load`]; [`KvError::Index`] and [`KvError::Follow`].
    pub fn load_progress(&self) -> Result<Option<KvLoad>, KvError> {
        match &self.source {
            Source::Opened(store) => store.load_progress(),
            Source::Served(served) if served.root() == PoolOffset::NULL => Ok(None),
            Source::Served(served) => {
                let at = served.root().plus(KV_LOAD_OFF);
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
