//! Opening what is to be read, whatever the layout of the pool.

use crate::error::KvError;
use crate::layouts::open_either;
use crate::named_trees::NamedTrees;
use crate::reader::StoreReader;
use crate::store::Store;
use lode_follow::Followed;
use std::path::Path;

impl StoreReader {
    /// Opens the store at `path`, a pool of the layout `kv`. A store that is in use is not kept from its writer, and one
    /// that is not in use can't be opened for writing until the reader is dropped.
    ///
    /// # Errors
    /// [`KvError::TreeNeeded`] for a pool of the layout `store`; [`KvError::Follow`] and [`KvError::Pool`], as
    /// [`Followed::open`].
    pub fn open(path: &Path) -> Result<StoreReader, KvError> {
        let pool = open_either(Store::layout_name(), |layout| Followed::open(path, Some(layout)))?;
        if pool.layout() == NamedTrees::layout_name() {
            return Err(KvError::TreeNeeded { names: NamedTrees::new(pool).names()? });
        }
        StoreReader::new(pool)
    }

    /// Opens the tree `name` of the pool of the layout `store` at `path`, as [`open`](StoreReader::open) does.
    ///
    /// # Errors
    /// [`KvError::NoTree`] if there is no tree of this name, which may be any bytes, and it is proved that damage hides
    /// none; as [`NamedTrees::open`], [`NamedTrees::get`] and [`NamedTrees::names`].
    pub fn open_tree(path: &Path, name: &[u8]) -> Result<StoreReader, KvError> {
        let trees = NamedTrees::open(path)?;
        // All names are UTF-8.
        let found = std::str::from_utf8(name).map_or(Ok(None), |name| trees.get(name))?;
        match found {
            Some((_, reader)) => Ok(reader),
            // The names are proved: damage that hides a tree is an error here.
            None => Err(KvError::NoTree { name: name.to_vec(), names: trees.names()? }),
        }
    }
}
