//! file-put, file-put-16, file-put-16-sequential and file-counter-16.
//!
//! Each engine keeps one store over all rounds, from empty: what counts is the steady state, with logs that are used
//! again and checkpoints. After the last round every put that was acknowledged must be there.
//!
//! One thread puts a fixed number of values in a lap. Many threads put for a fixed time, because the engines are too
//! far apart for a number that suits them all; so each engine ends with its own keys, and the digest is the number of
//! the engines whose puts were all found.

use crate::clock::{Lap, lap};
use crate::engine::{Counter, Engine, Store, VALUE_LEN, Value};
use crate::ours;
use crate::peers::{Lmdb, PmemobjTable, Redb, Rocksdb, Sqlite};
use crate::plan::{Selection, Size, THREADS};
use crate::rounds::{Comparison, common_digest, run_interleaved};
use anyhow::{Context, Result, anyhow, bail, ensure};
use fastrand::Rng;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A store, and the keys whose puts it acknowledged.
struct StoreRun {
    store: Box<dyn Store>,
    acknowledged: Vec<u64>,
}

/// The value that is put under a key, so that a get can be checked without remembering it.
fn value_of(key: u64) -> Value {
    let mut value = [0; VALUE_LEN];
    let mut rng = Rng::with_seed(key);
    rng.fill(&mut value);
    value
}

impl StoreRun {
    /// Asserts that each acknowledged put is there, and folds the values into a digest.
    fn check(&self) -> Result<u64> {
        let mut digest: u32 = 0;
        for key in &self.acknowledged {
            let found = self
                .store
                .get(*key)?
                .with_context(|| format!("an acknowledged put is lost: key {key:016x}"))?;
            ensure!(found == value_of(*key), "an acknowledged put changed: key {key:016x}");
            digest = crc32c::crc32c_append(digest, &found);
        }
        Ok(u64::from(digest))
    }
}

fn engines(peers: &[Engine], folder: &Path) -> Result<Vec<(Engine, StoreRun)>> {
    let mut engines = Vec::new();
    for engine in [Engine::Ours].iter().chain(peers) {
        let path = folder.join(format!("{engine}-puts"));
        let store: Box<dyn Store> = match engine {
            Engine::Ours => ours::store(&path)?,
            Engine::Libpmemobj => Box::new(PmemobjTable::create(&path)?),
            Engine::Sqlite => Box::new(Sqlite::create(&path)?),
            Engine::Lmdb => Box::new(Lmdb::create(&path)?),
            Engine::Redb => Box::new(Redb::create(&path)?),
            Engine::Rocksdb => Box::new(Rocksdb::create(&path)?),
            other => bail!("{other} is not a store"),
        };
        engines.push((*engine, StoreRun { store, acknowledged: Vec::new() }));
    }
    Ok(engines)
}

/// Puts from one thread.
pub(super) fn one_thread(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let mut engines = engines(&[Engine::Sqlite, Engine::Lmdb, Engine::Redb, Engine::Rocksdb], folder)?;
    let mut comparisons =
        run_interleaved(&["file-put"], size.rounds, true, &mut engines, |round, _, side| {
            let mut rng = Rng::with_seed(seed ^ (round as u64) << 32);
            let puts: Vec<_> = (0..size.puts).map(|_| rng.u64(..)).map(|key| (key, value_of(key))).collect();
            let (lap, done): (Lap, Result<()>) = lap(size.puts as u64, || {
                puts.iter().try_for_each(|(key, value)| side.store.put(*key, value))
            });
            done?;
            side.acknowledged.extend(puts.iter().map(|(key, _)| *key));
            Ok(vec![lap])
        })?;
    let digests = engines.iter().map(|(engine, side)| Ok((*engine, side.check()?)));
    comparisons[0].digest = common_digest("file-put", &digests.collect::<Result<Vec<_>>>()?)?;
    Ok(comparisons)
}

/// Puts from many threads: random keys, then rising ones, into stores of their own.
pub(super) fn many_threads(
    selection: &Selection,
    size: &Size,
    seed: u64,
    folder: &Path,
) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    let all = [("file-put-16", false), ("file-put-16-sequential", true)];
    for (workload, sequential) in all.into_iter().filter(|(row, _)| selection.has(row)) {
        let folder = folder.join(workload);
        std::fs::create_dir(&folder)?;
        let peers = [Engine::Libpmemobj, Engine::Sqlite, Engine::Lmdb, Engine::Redb, Engine::Rocksdb];
        let mut engines = engines(&peers, &folder)?;
        let mut comparison =
            run_interleaved(&[workload], size.rounds, true, &mut engines, |round, _, side| {
                let next = sequential.then(|| AtomicU64::new(side.acknowledged.len() as u64));
                let (lap, keys) = put_concurrently(
                    side.store.as_ref(),
                    size.lap,
                    seed ^ (round as u64) << 32,
                    next.as_ref(),
                )?;
                side.acknowledged.extend(keys);
                Ok(vec![lap])
            })?;
        for (engine, side) in &engines {
            side.check().with_context(|| format!("{engine} in {workload}"))?;
            comparison[0].digest += 1;
        }
        comparisons.append(&mut comparison);
    }
    Ok(comparisons)
}

/// A counter, and the number that was acknowledged.
type CounterRun = (Box<dyn Counter>, u64);

/// One number that all threads count up. Each engine must end with as many as were acknowledged.
pub(super) fn counter(size: &Size, folder: &Path) -> Result<Vec<Comparison>> {
    let mut engines: Vec<(Engine, CounterRun)> = Vec::new();
    for engine in [Engine::Ours, Engine::Sqlite, Engine::Lmdb, Engine::Redb] {
        let path = folder.join(format!("{engine}-counter"));
        let counter: Box<dyn Counter> = match engine {
            Engine::Ours => ours::counter(&path)?,
            Engine::Sqlite => Box::new(Sqlite::create(&path)?),
            Engine::Lmdb => Box::new(Lmdb::create(&path)?),
            Engine::Redb => Box::new(Redb::create(&path)?),
            other => bail!("{other} does not count"),
        };
        engines.push((engine, (counter, 0)));
    }
    let mut comparisons = run_interleaved(
        &["file-counter-16"],
        size.rounds,
        true,
        &mut engines,
        |_, _, (counter, expected)| {
            let (lap, times) = repeat_concurrently(size.lap, 0, |_| counter.increment())?;
            *expected += times.len() as u64;
            Ok(vec![lap])
        },
    )?;
    for (engine, (counter, expected)) in &engines {
        let number = counter.number()?;
        ensure!(number == *expected, "{engine} acknowledged {expected} and ends at {number}");
        comparisons[0].digest += 1;
    }
    Ok(comparisons)
}

/// Lets all threads put for `length`; returns the keys that were acknowledged. `next` gives out rising keys; without
/// it, each thread draws random ones.
fn put_concurrently(
    store: &dyn Store,
    length: Duration,
    seed: u64,
    next: Option<&AtomicU64>,
) -> Result<(Lap, Vec<u64>)> {
    repeat_concurrently(length, seed, |rng| {
        // ORDER: the counter alone is shared.
        let key = next.map_or_else(|| rng.u64(..), |next| next.fetch_add(1, Ordering::Relaxed));
        store.put(key, &value_of(key))?;
        Ok(key)
    })
}

/// Lets all threads repeat an operation for `length`; returns the results of all.
fn repeat_concurrently<T: Clone + Send>(
    length: Duration,
    seed: u64,
    operation: impl Fn(&mut Rng) -> Result<T> + Sync,
) -> Result<(Lap, Vec<T>)> {
    let (start, stop) = (Barrier::new(THREADS + 1), AtomicBool::new(false));
    let worker = |thread: usize| -> Result<Vec<T>> {
        let mut rng = Rng::with_seed(seed ^ (thread as u64) << 48);
        let mut results = Vec::new();
        start.wait();
        // ORDER: nothing is read on the word of the flag, it only ends the lap.
        while !stop.load(Ordering::Relaxed) {
            results.push(operation(&mut rng)?);
        }
        Ok(results)
    };
    let worker = &worker;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || worker(thread))).collect();
        start.wait();
        let (mut lap, results) = lap(0, || {
            thread::sleep(length);
            // ORDER: as at the load.
            stop.store(true, Ordering::Relaxed);
            let all =
                threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
            all.collect::<Result<Vec<_>>>()
        });
        let results = results?.concat();
        lap.ops = results.len() as u64;
        Ok((lap, results))
    })
}
