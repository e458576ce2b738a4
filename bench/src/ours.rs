//! Our side. It implements the same three traits as the peers, and measures what has no peer.
//!
//! A side that is not there yet returns `None`, and its rows are left out of all outputs, which say so.

use crate::contender::{Store, Transactions, Tree};
use crate::plan::{Rung, Size};
use crate::solo::Figure;
use anyhow::Result;
use std::path::Path;

/// An area of [`AREA_WORDS`](crate::contender::AREA_WORDS) words and [`SLOTS`](crate::contender::SLOTS) slots in a
/// fresh pool, its pages touched.
pub(crate) fn transactions(_path: &Path, _rung: Rung) -> Option<Result<Box<dyn Transactions>>> {
    None
}

/// An empty tree in a fresh pool with room for `keys` keys; `touched` brings its pages in.
pub(crate) fn tree(_path: &Path, _rung: Rung, _keys: usize, _touched: bool) -> Option<Result<Box<dyn Tree>>> {
    None
}

/// An empty store on an ordinary file.
pub(crate) fn store(_path: &Path) -> Option<Result<Box<dyn Store>>> {
    None
}

/// The works without a peer. `folder` is on tmpfs.
pub(crate) fn figures(_folder: &Path, _size: &Size) -> Result<Vec<Figure>> {
    Ok(Vec::new())
}
