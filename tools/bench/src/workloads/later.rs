//! later-1: puts that return before they are durable, from one thread.
//!
//! Each engine keeps one store over all rounds, from empty. Its defaults say how long what is put may wait: ours syncs after
//! 100 ms, or when half a megabyte waits, beside the clock or within; RocksDB leaves it to the kernel.

use super::databases;
use crate::clock::lap;
use crate::engine::{Engine, WholeDatabase};
use crate::pairs::Pairs;
use crate::plan::Size;
use crate::rounds::{Comparison, common_digest, run_interleaved};
use anyhow::Result;
use fastrand::Rng;
use std::path::Path;

/// Bytes of a key, and of a value.
const KEY_LEN: usize = 16;
const VALUE_LEN: usize = 100;
/// Puts of a lap for each of `file-put`, which wait for a sync.
const FACTOR: usize = 100;

/// Puts from one thread.
pub(super) fn one_thread(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let mut engines: Vec<(Engine, Box<dyn WholeDatabase>)> = Vec::new();
    for engine in [Engine::Ours, Engine::Rocksdb] {
        let path = folder.join(format!("{engine}-later"));
        engines.push((engine, databases::open_whole(engine, &path, size.overdue)?));
    }
    let count = size.puts * FACTOR;
    let mut comparisons =
        run_interleaved(&["later-1"], size.rounds, true, &mut engines, |round, _, store| {
            let mut rng = Rng::with_seed(seed ^ (round as u64) << 32);
            let pairs = Pairs::random(count, KEY_LEN, VALUE_LEN, &mut rng);
            let (lap, done) = lap(count as u64, || store.put_each_unsynced(&pairs));
            done?;
            Ok(vec![lap])
        })?;
    let digests = engines.iter().map(|(engine, store)| Ok((*engine, store.scan()?)));
    comparisons[0].digest = common_digest("later-1", &digests.collect::<Result<Vec<_>>>()?)?;
    Ok(comparisons)
}
