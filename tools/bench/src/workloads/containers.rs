//! pvec-push, pdeque-push-pop, pmap-insert and phashmap-insert: from empty containers in a fresh pool on, one transaction a change.

use super::trees::remove_files;
use crate::clock::lap;
use crate::engine::{Containers, Engine, fold};
use crate::ours::TypedContainers;
use crate::peers::{PmemobjContainers, VolatileContainers};
use crate::plan::Size;
use crate::rounds::{Comparison, common_digest, run_interleaved};
use anyhow::{Result, bail};
use fastrand::Rng;
use std::collections::HashSet;
use std::path::Path;

const WORKLOADS: [&str; 4] = ["pvec-push", "pdeque-push-pop", "pmap-insert", "phashmap-insert"];

fn create(engine: Engine, count: usize, touched: bool, folder: &Path) -> Result<Box<dyn Containers>> {
    Ok(match engine {
        Engine::Ours => Box::new(TypedContainers::create(&folder.join("ours-containers"), count, touched)?),
        Engine::Libpmemobj => {
            Box::new(PmemobjContainers::create(&folder.join("pmemobj-containers"), count, touched)?)
        }
        Engine::Floor => Box::new(VolatileContainers::create(&folder.join("floor-containers"), count)?),
        other => bail!("{other} has no containers"),
    })
}

/// Runs the rows, each on as many numbers as a lap has transactions.
pub(super) fn run(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let count = size.transactions;
    let mut engines = [Engine::Ours, Engine::Libpmemobj, Engine::Floor].map(|engine| (engine, 0_u64));
    let turn = |round: usize, engine, digest: &mut u64| {
        let mut random = Rng::with_seed(seed ^ (round as u64) << 32);
        let mut keys = HashSet::new();
        while keys.len() < count {
            // The examples of libpmemobj take 0 for no value.
            keys.insert(random.u64(1..));
        }
        let mut keys: Vec<u64> = keys.into_iter().collect();
        keys.sort_unstable();
        random.shuffle(&mut keys);
        let values: Vec<u64> = (0..count).map(|_| random.u64(1..)).collect();
        let mut all = create(engine, count, size.touched, folder)?;
        let ops = count as u64;
        let (push, done) = lap(ops, || all.push(&values));
        done?;
        let (push_pop, popped) = lap(ops, || all.push_pop(&values));
        let (sorted, done) = lap(ops, || all.insert_sorted(&keys, &values));
        done?;
        let (hashed, done) = lap(ops, || all.insert_hashed(&keys, &values));
        done?;
        *digest = fold(*digest, popped?);
        for (key, index) in keys.iter().zip(0..) {
            *digest = all.found(index, *key)?.into_iter().fold(*digest, fold);
        }
        drop(all);
        remove_files(folder)?;
        Ok(vec![push, push_pop, sorted, hashed])
    };
    let mut comparisons = run_interleaved(&WORKLOADS, size.rounds, false, &mut engines, turn)?;
    for comparison in &mut comparisons {
        comparison.digest = common_digest(&comparison.workload, &engines)?;
    }
    Ok(comparisons)
}
