//! fences and fences-1000: drains that have something to wait for.

use super::area::Area;
use super::pool::Mapped;
use super::store::TreeStore;
use super::tree::TreePool;
use crate::engine::{AREA_WORDS, SLOTS, Store, Transactions, VALUE_LEN};
use crate::keys::{KeySet, Keys};
use anyhow::Result;
use fastrand::Rng;
use lode_heap::Heap;
use lode_pmem::{Counted, Durability};
use std::path::Path;

/// Times that each operation is counted.
const TIMES: usize = 200;

/// The drains per durable operation: of all counts so far, the one furthest from 1.
struct Worst(f64);

impl Worst {
    /// Counts the drains between the begin and the return of `operation`, which makes `durable` durable operations.
    ///
    /// Makes a checkpoint first, so that none falls into the operation. [`drains_per_thousand`] counts checkpoints.
    fn count<S>(
        &mut self,
        side: &mut S,
        heap: impl for<'a> Fn(&'a S) -> &'a Heap<Counted<Mapped>>,
        durable: u64,
        operation: impl FnOnce(&mut S) -> Result<()>,
    ) -> Result<()> {
        heap(side).log().checkpoint()?;
        let before = heap(side).medium().counts();
        operation(side)?;
        let drains = (heap(side).medium().counts() - before).drains_waiting as f64 / durable as f64;
        if (drains - 1.0).abs() > (self.0 - 1.0).abs() {
            self.0 = drains;
        }
        Ok(())
    }
}

/// Returns the drains between the begin and the return of one durable operation: of all operations of the bench, the
/// count that is furthest from 1.
pub(super) fn drains_per_operation(folder: &Path) -> Result<f64> {
    let mut worst = Worst(1.0);
    for durability in [Durability::Line, Durability::Commit] {
        transactions(&mut worst, &folder.join(format!("fences-area-{durability:?}")), durability)?;
        tree(&mut worst, &folder.join(format!("fences-tree-{durability:?}")), durability)?;
    }
    let mut store = TreeStore::create(&folder.join("fences-store"), Counted::new)?;
    for key in 0..TIMES as u64 {
        worst.count(&mut store, TreeStore::heap, 1, |store| store.put(key, &[7; VALUE_LEN]))?;
    }
    Ok(worst.0)
}

fn transactions(worst: &mut Worst, path: &Path, durability: Durability) -> Result<()> {
    let mut area = Area::create(path, durability, Counted::new)?;
    let mut rng = Rng::with_seed(1);
    for _ in 0..TIMES {
        for ranges in [1, 4, 16] {
            let places: Vec<u32> = (0..ranges).map(|_| rng.u32(..AREA_WORDS)).collect();
            worst.count(&mut area, Area::heap, 1, |area| area.change(&places, ranges))?;
        }
        let slot = rng.u32(..SLOTS.min(TIMES as u32 / 4));
        worst.count(&mut area, Area::heap, 1, |area| area.replace(&[slot]))?;
        worst.count(&mut area, Area::heap, 2, |area| area.alloc_free(1))?;
    }
    Ok(())
}

fn tree(worst: &mut Worst, path: &Path, durability: Durability) -> Result<()> {
    let mut tree = TreePool::create(path, durability, TIMES * 4, Counted::new)?;
    let mut rng = Rng::with_seed(1);
    for set in [KeySet::Random, KeySet::Words] {
        let keys = Keys::new(set, TIMES, &mut rng)?;
        // The second time around, each key is there.
        for (key, id) in keys.iter().chain(keys.iter()) {
            worst.count(&mut tree, TreePool::heap, 1, |tree| tree.put(key, id))?;
        }
    }
    Ok(())
}

/// Returns the drains of a thousand transactions that change one range each, checkpoints included.
pub(super) fn drains_per_thousand(folder: &Path, transactions: usize) -> Result<f64> {
    let mut area = Area::create(&folder.join("fences-1000"), Durability::Line, Counted::new)?;
    let mut rng = Rng::with_seed(1);
    let places: Vec<u32> = (0..transactions).map(|_| rng.u32(..AREA_WORDS)).collect();
    let before = area.heap().medium().counts();
    area.change(&places, 1)?;
    let drains = (area.heap().medium().counts() - before).drains_waiting;
    Ok(drains as f64 * 1000.0 / transactions as f64)
}
