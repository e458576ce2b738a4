//! The tree as a store of pairs, on an ordinary file.

use super::pool::{self, Mapped};
use super::tree::TreePool;
use crate::engine::{Database, NoFigure};
use crate::pairs::{Pairs, fold_pair};
use anyhow::{Error, Result};
use lode_heap::Tx;
use lode_index::{StoreLayout, Tree};
use lode_pmem::Durability;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a pool beside its pairs.
const POOL_LEN_MIN: u64 = 64 << 20;
/// Changes of a transaction between two looks at the time. A transaction with fewer is never given up.
const CHANGES: usize = 128;

/// A tree of pairs, and a limit for the time of one transaction.
pub(super) struct TreeDatabase {
    tree: TreePool<Mapped>,
    overdue: Duration,
}

impl TreeDatabase {
    /// An empty store in a fresh pool with `room` bytes for pairs, and for the records of large transactions.
    pub(super) fn create(
        path: &Path,
        durability: Durability,
        room: u64,
        overdue: Duration,
    ) -> Result<TreeDatabase> {
        let tree = TreePool::create_with_len(path, durability, POOL_LEN_MIN + room, pool::plain)?;
        Ok(TreeDatabase { tree, overdue })
    }

    /// Opens the store at `path`.
    pub(super) fn open(path: &Path, durability: Durability, overdue: Duration) -> Result<TreeDatabase> {
        Ok(TreeDatabase { tree: TreePool::open(path, durability, pool::plain)?, overdue })
    }

    /// Returns true if the pool holds the trees of the public crate.
    pub(super) fn is_public(&self) -> bool {
        self.tree.layout().to_string() == StoreLayout::NAME
    }

    /// Puts each pair in a transaction of its own.
    pub(super) fn put_each(&self, pairs: &Pairs) -> Result<()> {
        let tree = self.tree.tree()?;
        for (key, value) in pairs.iter() {
            tree.insert(key, value)?;
        }
        Ok(())
    }

    /// Makes `all` changes in one transaction, and gives up when the time is over.
    fn change_all(
        &self,
        all: usize,
        mut change: impl FnMut(&Tree<'_, Mapped>, &Tx<'_, Mapped>, usize) -> Result<()>,
    ) -> Result<()> {
        let (began, tree) = (Instant::now(), self.tree.tree()?);
        self.tree.heap().run(|tx| {
            for done in 0..all {
                change(&tree, tx, done)?;
                if done % CHANGES == CHANGES - 1 && began.elapsed() > self.overdue {
                    let after = self.overdue.as_secs();
                    let reason =
                        format!("given up after {after} s, at change {done} of {all} in one transaction");
                    return Err(Error::new(NoFigure(reason)));
                }
            }
            Ok(())
        })
    }
}

impl Database for TreeDatabase {
    fn put_all(&self, pairs: &Pairs) -> Result<()> {
        self.change_all(pairs.len(), |tree, tx, index| {
            let (key, value) = pairs.pair(index);
            tree.insert_in(tx, key, value)?;
            Ok(())
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.tree.tree()?.insert(key, value)?;
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.tree.tree()?.get(key)?)
    }

    fn count(&self) -> Result<u64> {
        Ok(self.tree.tree()?.count()?)
    }

    fn scan(&self) -> Result<u64> {
        let reader = self.tree.tree()?.reader();
        let mut digest = 0;
        for entry in reader.iter() {
            let entry = entry?;
            digest = fold_pair(digest, &entry.key, &entry.value);
        }
        Ok(digest)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.tree.close()
    }
}
