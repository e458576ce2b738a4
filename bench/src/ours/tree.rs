//! The radix tree, for keys and 8-byte values.

use super::pool::{Mapped, Pool};
use crate::contender::{Tree, fold};
use crate::keys::Keys;
use anyhow::{Context, Result};
use lode_index::IndexError;
use lode_layout::PoolOffset;
use lode_pmem::{Medium, Rung};
use std::path::Path;

/// Bytes of a pool for each key: twice of what words take.
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

impl TreePool<Mapped> {
    /// An empty tree in a fresh pool with room for `keys` keys.
    pub(super) fn create(path: &Path, rung: Rung, keys: usize) -> Result<TreePool<Mapped>> {
        TreePool::create_through(path, rung, keys, |mapping| mapping)
    }
}

impl<M: Medium> TreePool<M> {
    /// As [`TreePool::create`], in a pool that stores through what `wrap` makes of the mapping.
    pub(super) fn create_through(
        path: &Path,
        rung: Rung,
        keys: usize,
        wrap: impl FnOnce(Mapped) -> M,
    ) -> Result<TreePool<M>> {
        let pool = Pool::create_through(path, pool_len(keys), rung, wrap)?;
        let root = pool.heap().run(|tx| {
            let root = lode_index::Tree::create(tx)?;
            tx.set_root(root);
            Ok::<_, IndexError>(root)
        })?;
        Ok(TreePool { pool, root })
    }

    /// Opens the pool at `path` and the tree in it.
    pub(super) fn open_through(
        path: &Path,
        rung: Rung,
        wrap: impl FnOnce(Mapped) -> M,
    ) -> Result<TreePool<M>> {
        let pool = Pool::open_through(path, rung, wrap)?;
        let root = pool.heap().root()?;
        Ok(TreePool { pool, root })
    }

    /// The pool.
    pub(super) fn pool(&self) -> &Pool<M> {
        &self.pool
    }

    /// The tree.
    pub(super) fn tree(&self) -> Result<lode_index::Tree<'_, M>> {
        Ok(lode_index::Tree::open(self.pool.heap(), self.root)?)
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
            let value = reader.get(key)?.context("a key is missing")?;
            let id = value.as_small().and_then(|bytes| bytes.try_into().ok()).context("a value is too long")?;
            digest = fold(digest, u64::from_le_bytes(id));
        }
        Ok(digest)
    }
}
