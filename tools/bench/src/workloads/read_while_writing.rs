//! read-while-writing: gets by four threads, while one thread puts at a steady rate.
//!
//! On tmpfs, where 10,000 durable puts a second are possible for both engines: LMDB's syncs cost next to nothing there.
//! The store has a million keys; the writer replaces values of random ones, and the readers get random ones, each in a
//! read of its own. A put is late if the one before took too long; then the next ones follow at once.

use super::databases;
use crate::clock::{Lap, lap};
use crate::engine::{Database, Engine};
use crate::group::Durability;
use crate::ours;
use crate::pairs::Pairs;
use crate::plan::Size;
use crate::rounds::{Comparison, run_interleaved};
use anyhow::{Context, Result, anyhow, ensure};
use fastrand::Rng;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Threads that read.
const READERS: usize = 4;
/// Puts in a second.
const RATE: u32 = 10_000;
/// Bytes of a key, of a value, and of a pool for each pair.
const KEY_LEN: usize = 16;
const VALUE_LEN: usize = 100;
const PAIR_ROOM: u64 = 256;

/// Runs both rows.
pub(super) fn run(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let mut pairs = Pairs::random(size.store_keys, KEY_LEN, VALUE_LEN, &mut Rng::with_seed(seed));
    // A value begins with its key, so that a get can be checked, whichever put it finds.
    pairs.sign();
    let mut engines: Vec<(Engine, Box<dyn Database>)> = Vec::new();
    for engine in [Engine::Ours, Engine::Lmdb] {
        let path = folder.join(format!("{engine}-pairs"));
        let room = size.store_keys as u64 * PAIR_ROOM;
        if engine == Engine::Ours {
            ours::filled_database(&path, room, &pairs)?.close()?;
            engines.push((engine, ours::open_database(&path, Durability::Line, Duration::MAX)?));
        } else {
            let store = databases::open(engine, &path, Duration::MAX)?;
            store.put_all(&pairs)?;
            engines.push((engine, store));
        }
    }
    let rows = ["read-while-writing", "read-while-writing-put"];
    let mut comparisons = run_interleaved(&rows, size.long_rounds, true, &mut engines, |round, _, store| {
        let laps = one_lap(store.as_ref(), &pairs, size.lap * 2, seed ^ (round as u64) << 32)?;
        Ok(laps.to_vec())
    })?;
    for comparison in &mut comparisons {
        for (engine, store) in &engines {
            ensure!(store.count()? == pairs.len() as u64, "{engine} lost pairs");
            comparison.digest += 1;
        }
    }
    Ok(comparisons)
}

/// Gets of all readers, and the time that 99 of 100 puts did not exceed.
fn one_lap(store: &dyn Database, pairs: &Pairs, length: Duration, seed: u64) -> Result<[Lap; 2]> {
    let (start, stop) = (Barrier::new(READERS + 1), AtomicBool::new(false));
    let reader = |thread: usize| -> Result<u64> {
        let mut rng = Rng::with_seed(seed ^ (thread as u64) << 48);
        let mut gets = 0;
        start.wait();
        // ORDER: nothing is read on the word of the flag, it only ends the lap.
        while !stop.load(Ordering::Relaxed) {
            let (key, _) = pairs.pair(rng.usize(..pairs.len()));
            let value = store.get(key)?.context("a pair is lost")?;
            ensure!(value.starts_with(key), "a get found the value of another key");
            gets += 1;
        }
        Ok(gets)
    };
    let reader = &reader;
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|thread| scope.spawn(move || reader(thread))).collect();
        start.wait();
        let (mut reads, (times, gets)) = lap(0, || {
            let times = put_steadily(store, pairs, length, seed);
            // ORDER: as at the load.
            stop.store(true, Ordering::Relaxed);
            let all =
                readers.into_iter().map(|reader| reader.join().map_err(|_| anyhow!("a thread panicked"))?);
            (times, all.sum::<Result<u64>>())
        });
        reads.ops = gets?;
        let mut times = times?;
        times.sort_unstable();
        let slowest = times.len() * 99 / 100;
        let ns = *times.get(slowest).context("no puts")?;
        Ok([reads, Lap { ops: 1, ns, ..Lap::default() }])
    })
}

/// Puts at [`RATE`] for `length`; returns the nanoseconds of each put.
fn put_steadily(store: &dyn Database, pairs: &Pairs, length: Duration, seed: u64) -> Result<Vec<u64>> {
    let mut rng = Rng::with_seed(seed);
    let mut value = vec![0; VALUE_LEN];
    let mut times = Vec::new();
    let began = Instant::now();
    while began.elapsed() < length {
        let (key, _) = pairs.pair(rng.usize(..pairs.len()));
        rng.fill(&mut value);
        value[..KEY_LEN].copy_from_slice(key);
        let put = Instant::now();
        store.put(key, &value)?;
        times.push(u64::try_from(put.elapsed().as_nanos())?);
        let due = Duration::from_secs(1) / RATE * u32::try_from(times.len())?;
        thread::sleep(due.saturating_sub(began.elapsed()));
    }
    Ok(times)
}
