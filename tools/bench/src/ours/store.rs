//! Puts by many threads: the tree on an ordinary file.

use super::pool::Mapped;
use super::tree::TreePool;
use crate::engine::{Counter, Store, Value};
use anyhow::{Context, Result};
use lode_heap::Heap;
use lode_pmem::{Durability, Medium};
use std::path::Path;

/// Keys that a store has room for: a machine that syncs faster than today's may need more.
const KEYS_MAX: usize = 2 << 20;

/// A tree with values of 100 bytes.
pub(super) struct TreeStore<M: Medium> {
    tree: TreePool<M>,
}

impl<M: Medium> TreeStore<M> {
    /// An empty store on an ordinary file, its pages touched, that stores through what `wrap` makes of the
    /// mapping.
    pub(super) fn create(path: &Path, wrap: impl FnOnce(Mapped) -> M) -> Result<TreeStore<M>> {
        let tree = TreePool::create(path, Durability::Commit, KEYS_MAX, wrap)?;
        tree.touch()?;
        Ok(TreeStore { tree })
    }

    /// The heap.
    pub(super) fn heap(&self) -> &Heap<M> {
        self.tree.heap()
    }
}

impl<M: Medium> Store for TreeStore<M> {
    fn put(&self, key: u64, value: &Value) -> Result<()> {
        self.tree.tree()?.insert(&key.to_be_bytes(), value)?;
        Ok(())
    }

    fn get(&self, key: u64) -> Result<Option<Value>> {
        let reader = self.tree.tree()?.reader();
        let Some(found) = reader.get(&key.to_be_bytes())? else { return Ok(None) };
        Ok(Some(found.as_bytes().try_into().with_context(|| format!("a value of {} bytes", found.len()))?))
    }
}

/// The key of the number that many threads count up.
const COUNTER: &[u8] = b"counter";

impl<M: Medium> Counter for TreeStore<M> {
    fn increment(&self) -> Result<()> {
        let next = |old: Option<&[u8]>| {
            let old = old.and_then(|old| old.try_into().ok()).map_or(0, u64::from_le_bytes);
            Some((old + 1).to_le_bytes().to_vec())
        };
        Ok(self.tree.tree()?.update(COUNTER, next)?)
    }

    fn number(&self) -> Result<u64> {
        let found = self.tree.tree()?.get(COUNTER)?.context("the counter is lost")?;
        Ok(u64::from_le_bytes(found.as_slice().try_into().context("the counter has another length")?))
    }
}
