//! The radix tree, for keys and 8-byte values.

use super::pool::{self, Mapped};
use crate::engine::{Tree, fold};
use crate::keys::Keys;
use anyhow::{Context, Result};
use lode_heap::{Heap, Pool};
use lode_index::IndexError;
use lode_layout::{LayoutName, PoolOffset};
use lode_pmem::{Durability, Medium};
use std::path::Path;

/// Bytes of a pool for each key: twice what the key set of English words needs.
const KEY_ROOM: u64 = 256;
/// Bytes of a pool for anything else.
const POOL_LEN_MIN: u64 = 64 << 20;

/// A pool with a tree as its root object.
pub(super) struct TreePool<M: Medium> {
    pool: Pool<M>,
    root: PoolOffset,
}

/// Bytes of a pool with room for `keys` keys.
fn pool_len(keys: usize) -> u64 {
    POOL_LEN_MIN + keys as u64 * KEY_ROOM
}

impl<M: Medium> TreePool<M> {
    /// An empty tree in a fresh pool with room for `keys` keys, that stores through what `wrap` makes of the
    /// mapping.
    pub(super) fn create(
        path: &Path,
        durability: Durability,
        keys: usize,
        wrap: impl FnOnce(Mapped) -> M,
    ) -> Result<TreePool<M>> {
        TreePool::create_with_len(path, durability, pool_len(keys), wrap)
    }

    /// An empty tree in a fresh pool of `len` bytes, that stores through what `wrap` makes of the mapping.
    pub(super) fn create_with_len(
        path: &Path,
        durability: Durability,
        len: u64,
        wrap: impl FnOnce(Mapped) -> M,
    ) -> Result<TreePool<M>> {
        let pool = pool::create(path, len, durability, wrap)?;
        let root = pool.heap().run(|tx| {
            let root = lode_index::Tree::create(tx)?;
            tx.set_root(root);
            Ok::<_, IndexError>(root)
        })?;
        Ok(TreePool { pool, root })
    }

    /// Opens the pool at `path` and the tree in it.
    pub(super) fn open(
        path: &Path,
        durability: Durability,
        wrap: impl FnOnce(Mapped) -> M,
    ) -> Result<TreePool<M>> {
        let pool = pool::open(path, durability, wrap)?;
        let root = pool.heap().root()?;
        Ok(TreePool { pool, root })
    }

    /// Brings all pages of the pool in.
    pub(super) fn touch(&self) -> Result<()> {
        pool::touch(&self.pool)
    }

    /// Closes the pool.
    pub(super) fn close(self) -> Result<()> {
        Ok(self.pool.close()?)
    }

    /// The name of the pool's layout.
    pub(super) fn layout(&self) -> LayoutName {
        self.pool.layout()
    }

    /// The heap.
    pub(super) fn heap(&self) -> &Heap<M> {
        self.pool.heap()
    }

    /// The tree.
    pub(super) fn tree(&self) -> Result<lode_index::Tree<'_, M>> {
        Ok(lode_index::Tree::open(self.pool.heap(), self.root)?)
    }

    /// Inserts one key.
    pub(super) fn put(&self, key: &[u8], id: u64) -> Result<()> {
        self.tree()?.insert(key, &id.to_le_bytes())?;
        Ok(())
    }

    /// Inserts each key with its id as value, one durable transaction a key.
    pub(super) fn insert_all(&self, keys: &Keys) -> Result<()> {
        let tree = self.tree()?;
        for (key, id) in keys.iter() {
            tree.insert(key, &id.to_le_bytes())?;
        }
        Ok(())
    }
}

impl<M: Medium> Tree for TreePool<M> {
    fn insert(&mut self, keys: &Keys) -> Result<()> {
        self.insert_all(keys)
    }

    fn lookup(&self, keys: &Keys) -> Result<u64> {
        let reader = self.tree()?.reader();
        let mut digest = 0;
        for (key, _) in keys.iter() {
            let value = reader.get_unchecked(key)?.context("a key is missing")?;
            let id =
                value.as_small().and_then(|bytes| bytes.try_into().ok()).context("a value is too long")?;
            digest = fold(digest, u64::from_le_bytes(id));
        }
        Ok(digest)
    }

    fn lookup_checked(&self, keys: &Keys) -> Result<u64> {
        let reader = self.tree()?.reader();
        let mut digest = 0;
        for (key, _) in keys.iter() {
            let value = reader.get(key)?.context("a key is missing")?;
            let id = value.as_bytes().try_into().context("a value is too long")?;
            digest = fold(digest, u64::from_le_bytes(id));
        }
        Ok(digest)
    }
}
