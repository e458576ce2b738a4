//! Lodestone. It implements the same three traits as the peers, and measures what has no peer.

mod area;
mod baselines;
mod blocks;
mod containers;
mod covered;
mod crash;
mod database;
mod fences;
mod footprint;
mod log;
mod migration;
mod partial;
mod phases;
mod pool;
mod public;
mod snapshots;
mod store;
mod tree;
mod typed;
mod validated;

pub(crate) use blocks::{Atomic, Dax, Table};
pub(crate) use containers::TypedContainers;
pub(crate) use footprint::load_and_wait;
pub(crate) use log::Log;

use crate::engine::{Counter, Database, Store, Transactions, Tree, WholeDatabase};
use crate::figure::Figure;
use crate::group::Durability;
use crate::pairs::Pairs;
use crate::plan::Size;
use anyhow::Result;
use area::Area;
use covered::CoveredArea;
use database::TreeDatabase;
use public::PublicDatabase;
use std::path::Path;
use std::time::Duration;
use store::TreeStore;
use tree::TreePool;

impl Durability {
    /// The durability of a pool.
    pub(crate) fn of_pool(self) -> lode_pmem::Durability {
        match self {
            Durability::Line => lode_pmem::Durability::Line,
            Durability::Commit => lode_pmem::Durability::Commit,
        }
    }
}

/// An area of [`AREA_WORDS`](crate::engine::AREA_WORDS) words and [`SLOTS`](crate::engine::SLOTS) slots in a
/// fresh pool, its pages touched.
pub(crate) fn transactions(path: &Path, durability: Durability) -> Result<Box<dyn Transactions>> {
    Ok(Box::new(Area::create(path, durability.of_pool(), pool::plain)?))
}

/// An area of so many words that programs store to in place, in a fresh file, its pages touched.
pub(crate) fn stores_in_place(
    path: &Path,
    durability: Durability,
    words: u32,
) -> Result<Box<dyn Transactions>> {
    Ok(Box::new(CoveredArea::create(path, durability.of_pool(), words)?))
}

/// An empty tree in a fresh pool with room for `keys` keys; `touched` brings its pages in.
pub(crate) fn tree(path: &Path, durability: Durability, keys: usize, touched: bool) -> Result<Box<dyn Tree>> {
    let tree = TreePool::create(path, durability.of_pool(), keys, pool::plain)?;
    if touched {
        tree.touch()?;
    }
    Ok(Box::new(tree))
}

/// An empty store on an ordinary file.
pub(crate) fn store(path: &Path) -> Result<Box<dyn Store>> {
    Ok(Box::new(TreeStore::create(path, pool::plain)?))
}

/// A counter in an empty store on an ordinary file.
pub(crate) fn counter(path: &Path) -> Result<Box<dyn Counter>> {
    Ok(Box::new(TreeStore::create(path, pool::plain)?))
}

/// A store with `pairs` in a fresh pool on an ordinary file, with `room` bytes for pairs and large transactions. It
/// never syncs, so that it is made soon; it is to be closed and opened again.
pub(crate) fn filled_database(path: &Path, room: u64, pairs: &Pairs) -> Result<Box<dyn Database>> {
    let store = TreeDatabase::create(path, lode_pmem::Durability::Line, room, Duration::MAX)?;
    store.put_each(pairs)?;
    Ok(Box::new(store))
}

/// Opens the store at `path`, or makes it, through the public crate. A transaction that takes longer than `overdue` is given
/// up.
pub(crate) fn public_database(path: &Path, overdue: Duration) -> Result<Box<dyn WholeDatabase>> {
    Ok(Box::new(PublicDatabase::open(path, overdue)?))
}

/// Opens the store at `path`, as it was made. A transaction that takes longer than `overdue` is given up.
pub(crate) fn open_database(
    path: &Path,
    durability: Durability,
    overdue: Duration,
) -> Result<Box<dyn Database>> {
    let store = TreeDatabase::open(path, durability.of_pool(), overdue)?;
    if store.is_public() {
        Box::new(store).close()?;
        return Ok(Box::new(PublicDatabase::open(path, overdue)?));
    }
    Ok(Box::new(store))
}

/// The workloads without a peer, and notes on where cycles go. `folder` is on tmpfs.
pub(crate) fn figures(folder: &Path, size: &Size) -> Result<(Vec<Figure>, Vec<String>)> {
    let keys = size.keys as u64;
    let footprint = footprint::measure(folder, keys, 2 * size.keys)?;
    let beside = snapshots::beside(size)?;
    let typed_pool = migration::measure(folder, keys, size.rounds.min(3))?;
    let figures = [
        ("fences", fences::drains_per_operation(folder)?),
        ("fences-1000", fences::drains_per_thousand(folder, size.transactions)?),
        ("read-typed", typed::read_overhead(size.rounds, size.walks)?),
        ("read-values", typed::value_overhead(size.rounds, size.walks)?),
        ("migrate-1m", typed_pool.migration),
        ("check-typed-1m", typed_pool.check),
        ("validated-read", validated::cell_read(size)?),
        ("validated-read-tree", validated::key_read(size)?),
        ("scan-while-writing", beside.scan),
        ("scan-while-writing-puts", beside.puts),
        ("art-durable-cost", baselines::durable_overhead(folder, size.keys)?),
        ("reopen-1m", footprint.reopen_ms),
        ("bytes-per-key", footprint.bytes_per_key),
        ("private-mib", footprint.private_mib),
        ("threads-2", baselines::two_thread_speedup(folder, size.keys)?),
        ("crash-images", crash::log_image_rate(size.exploration)?),
    ];
    let figures = figures.map(|(workload, value)| Figure { workload: workload.to_owned(), value });
    let twice = footprint::measure(folder, 2 * keys, 2 * size.keys)?;
    let mut notes = phases::transaction_breakdowns(folder, size.transactions)?;
    notes.push(phases::insert_breakdown(folder, size.keys)?);
    notes.push(format!(
        "reopen-1m: {:.1} ms with {keys} keys, {:.1} ms with {} keys in a pool of the same size",
        footprint.reopen_ms,
        twice.reopen_ms,
        2 * keys
    ));
    notes.push(beside.note);
    notes.push(crash::other_image_rates(size.exploration)?);
    Ok((figures.into(), notes))
}
