//! Our side. It implements the same three traits as the peers, and measures what has no peer.

mod area;
mod pool;
mod store;
mod tree;

use crate::contender::{Store, Transactions, Tree};
use crate::plan::{Rung, Size};
use crate::solo::Figure;
use anyhow::Result;
use std::path::Path;

impl Rung {
    /// The rung of a pool.
    fn of_pool(self) -> lode_pmem::Rung {
        match self {
            Rung::Line => lode_pmem::Rung::Line,
            Rung::Commit => lode_pmem::Rung::Commit,
        }
    }
}

/// An area of [`AREA_WORDS`](crate::contender::AREA_WORDS) words and [`SLOTS`](crate::contender::SLOTS) slots in a
/// fresh pool, its pages touched.
pub(crate) fn transactions(path: &Path, rung: Rung) -> Result<Box<dyn Transactions>> {
    Ok(Box::new(area::Area::create(path, rung.of_pool())?))
}

/// An empty tree in a fresh pool with room for `keys` keys; `touched` brings its pages in.
pub(crate) fn tree(path: &Path, rung: Rung, keys: usize, touched: bool) -> Result<Box<dyn Tree>> {
    let tree = tree::TreePool::create(path, rung.of_pool(), keys)?;
    if touched {
        tree.pool().touch()?;
    }
    Ok(Box::new(tree))
}

/// An empty store on an ordinary file.
pub(crate) fn store(path: &Path) -> Result<Box<dyn Store>> {
    Ok(Box::new(store::TreeStore::create(path)?))
}

/// The works without a peer. `folder` is on tmpfs.
pub(crate) fn figures(_folder: &Path, _size: &Size) -> Result<Vec<Figure>> {
    Ok(Vec::new())
}
