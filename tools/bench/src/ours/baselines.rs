//! art-durable-cost and threads-2: one tree against another tree of our own.

use super::pool;
use super::tree::TreePool;
use crate::clock::{Lap, lap};
use crate::keys::{KeySet, Keys};
use crate::rounds::median;
use anyhow::{Result, anyhow};
use fastrand::Rng;
use lode_pmem::Durability;
use std::fs;
use std::path::Path;
use std::thread;

/// Times around.
const ROUNDS: usize = 5;

/// Returns the ratio of the ticks of inserts at durability line to those of the same inserts at durability none, where
/// nothing is flushed or drained.
pub(super) fn durable_overhead(folder: &Path, keys: usize) -> Result<f64> {
    let keys = Keys::new(KeySet::Random, keys, &mut Rng::with_seed(1))?;
    let time = |durability| -> Result<f64> {
        let path = folder.join("durable-cost");
        let tree = TreePool::create(&path, durability, keys.len(), pool::plain)?;
        let (lap, done): (Lap, Result<()>) = lap(keys.len() as u64, || tree.insert_all(&keys));
        done?;
        fs::remove_file(path)?;
        Ok(lap.cycles as f64)
    };
    let ratio = |_| Ok(time(Durability::Line)? / time(Durability::None)?);
    Ok(median(&(0..ROUNDS).map(ratio).collect::<Result<Vec<_>>>()?))
}

/// Inserts a second of two threads into one tree, over those of one.
pub(super) fn two_thread_speedup(folder: &Path, keys: usize) -> Result<f64> {
    let mut rng = Rng::with_seed(1);
    let halves = [0, 1].map(|_| Keys::new(KeySet::Random, keys / 2, &mut rng));
    let [one, two] = halves;
    let (one, two) = (one?, two?);
    let time = |threads: usize| -> Result<f64> {
        let path = folder.join("threads");
        let tree = TreePool::create(&path, Durability::Line, keys, pool::plain)?;
        let (lap, done): (Lap, Result<()>) = lap(keys as u64, || {
            if threads == 1 {
                tree.insert_all(&one)?;
                return tree.insert_all(&two);
            }
            thread::scope(|scope| {
                let other = scope.spawn(|| tree.insert_all(&two));
                tree.insert_all(&one)?;
                other.join().map_err(|_| anyhow!("a thread panicked"))?
            })
        });
        done?;
        fs::remove_file(path)?;
        Ok(lap.ns as f64)
    };
    let ratio = |_| Ok(time(1)? / time(2)?);
    Ok(median(&(0..ROUNDS).map(ratio).collect::<Result<Vec<_>>>()?))
}
