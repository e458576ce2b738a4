//! The public crate as a store of pairs, on an ordinary file.

use crate::engine::{Database, NoFigure, Reads, WholeDatabase, is_extracted, is_retained};
use crate::pairs::{Pairs, fold_pair};
use anyhow::{Context, Error, Result, ensure};
use lodestone::{ReadTree, Store, TreeDef, WriteTree};
use std::path::Path;
use std::time::{Duration, Instant};

/// Changes of a transaction between two looks at the time. A transaction with fewer is never given up.
const CHANGES: usize = 128;

const PAIRS: TreeDef<'static, Vec<u8>, Vec<u8>> = TreeDef::new("pairs");

/// A store with one tree, and a limit for the time of one transaction.
pub(super) struct PublicDatabase {
    store: Store,
    overdue: Duration,
}

impl PublicDatabase {
    /// Opens the store at `path`, or makes it.
    pub(super) fn open(path: &Path, overdue: Duration) -> Result<PublicDatabase> {
        let store = Store::open(path)?;
        store.write(|tx| tx.tree(PAIRS).map(drop))?;
        Ok(PublicDatabase { store, overdue })
    }

    /// Makes `all` changes in one transaction, and gives up when the time is over.
    fn change_all(
        &self,
        all: usize,
        mut change: impl FnMut(&WriteTree<'_, Vec<u8>, Vec<u8>>, usize) -> Result<()>,
    ) -> Result<()> {
        let began = Instant::now();
        self.store.try_write(|tx| {
            let tree = tx.tree(PAIRS)?;
            for done in 0..all {
                change(&tree, done)?;
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

    fn tree(&self) -> Result<ReadTree<Vec<u8>, Vec<u8>>> {
        Ok(self.store.snapshot()?.tree(PAIRS)?)
    }
}

impl Database for PublicDatabase {
    fn put_all(&self, pairs: &Pairs) -> Result<()> {
        self.change_all(pairs.len(), |tree, index| {
            let (key, value) = pairs.pair(index);
            tree.put(key, value)?;
            Ok(())
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.put(PAIRS, key, value)?;
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.store.get(PAIRS, key)?)
    }

    fn count(&self) -> Result<u64> {
        Ok(self.tree()?.count()?)
    }

    fn scan(&self) -> Result<u64> {
        // A snapshot shows what is durable, and puts that are not synced are not yet.
        self.store.make_durable()?;
        let mut digest = 0;
        for pair in self.tree()?.iter() {
            let (key, value) = pair?;
            digest = fold_pair(digest, &key, &value);
        }
        Ok(digest)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.store.close()?)
    }
}

impl WholeDatabase for PublicDatabase {
    fn append_all(&self, pairs: &Pairs) -> Result<()> {
        self.store.write(|tx| tx.tree(PAIRS)?.append(pairs.iter()))?;
        Ok(())
    }

    fn remove_all(&self, pairs: &Pairs) -> Result<()> {
        self.change_all(pairs.len(), |tree, index| {
            ensure!(tree.delete(pairs.pair(index).0)?, "a key to remove is missing");
            Ok(())
        })
    }

    fn pop(&self, count: usize) -> Result<u64> {
        let mut digest = 0;
        self.change_all(count, |tree, index| {
            if index == 0 {
                // The closure may have started again.
                digest = 0;
            }
            let popped = if index % 2 == 0 { tree.pop_first()? } else { tree.pop_last()? };
            let (key, value) = popped.context("the store is empty")?;
            digest = fold_pair(digest, &key, &value);
            Ok(())
        })?;
        Ok(digest)
    }

    fn put_each_unsynced(&self, pairs: &Pairs) -> Result<()> {
        for (key, value) in pairs.iter() {
            // The ticket is not needed.
            let _ = self.store.write_later(|tx| tx.tree(PAIRS)?.put(key, value))?;
        }
        Ok(())
    }

    fn retain(&self) -> Result<()> {
        self.store.write(|tx| tx.tree(PAIRS)?.retain(.., |key, _| is_retained(key)))?;
        Ok(())
    }

    fn extract_if(&self, end: &[u8]) -> Result<u64> {
        Ok(self.store.write(|tx| {
            let tree = tx.tree(PAIRS)?;
            let mut digest: u64 = 0;
            for pair in tree.extract_if(..end, |key, _| is_extracted(key)) {
                let (key, value) = pair?;
                digest = digest.wrapping_add(fold_pair(0, &key, &value));
            }
            Ok(digest)
        })?)
    }

    fn compact(self: Box<Self>, beside: &Path) -> Result<()> {
        self.store.copy_to(beside, &Store::options())?;
        self.close()
    }

    fn reader(&self) -> Result<Box<dyn Reads + '_>> {
        Ok(Box::new(self.tree()?))
    }
}

impl Reads for ReadTree<Vec<u8>, Vec<u8>> {
    fn get_all(&mut self, pairs: &Pairs) -> Result<u64> {
        let mut digest = 0;
        for (key, _) in pairs.iter() {
            digest = fold_pair(digest, key, &self.get(key)?.context("a key is missing")?);
        }
        Ok(digest)
    }

    fn ranges(&mut self, pairs: &Pairs, count: usize) -> Result<u64> {
        let mut digest = 0;
        for (key, _) in pairs.iter() {
            for pair in self.range(key..).take(count) {
                let (key, value) = pair?;
                digest = fold_pair(digest, &key, &value);
            }
        }
        Ok(digest)
    }
}
