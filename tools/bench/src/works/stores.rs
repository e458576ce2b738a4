//! file-put, file-put-16 and file-put-16-sequential.
//!
//! Each side keeps one store over all rounds, from empty: what counts is the steady state, with logs that are used
//! again and checkpoints. After the last round every put that was acknowledged must be there.
//!
//! One thread puts a fixed number of values in a lap. Many threads put for a fixed time, because the sides are too far
//! apart for a number that suits them all; so each side ends with its own keys, and the digest is the number of the
//! sides whose puts were all found.

use crate::clock::{Lap, lap};
use crate::contender::{Store, VALUE_LEN, Value, Who};
use crate::ours;
use crate::peers::{Lmdb, PmemobjTable, Redb, Rocksdb, Sqlite};
use crate::plan::{Size, THREADS};
use crate::rounds::{Contest, same_digest, take_turns};
use anyhow::{Context, Result, anyhow, bail, ensure};
use fastrand::Rng;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A store, and the keys whose puts it acknowledged.
struct Side {
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

impl Side {
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

fn sides(peers: &[Who], folder: &Path) -> Result<Vec<(Who, Side)>> {
    let mut sides = Vec::new();
    for who in [Who::Ours].iter().chain(peers) {
        let path = folder.join(format!("{who}-puts"));
        let store: Box<dyn Store> = match who {
            Who::Ours => ours::store(&path)?,
            Who::Libpmemobj => Box::new(PmemobjTable::create(&path)?),
            Who::Sqlite => Box::new(Sqlite::create(&path)?),
            Who::Lmdb => Box::new(Lmdb::create(&path)?),
            Who::Redb => Box::new(Redb::create(&path)?),
            Who::Rocksdb => Box::new(Rocksdb::create(&path)?),
            other => bail!("{other} is not a store"),
        };
        sides.push((*who, Side { store, acknowledged: Vec::new() }));
    }
    Ok(sides)
}

/// Puts from one thread.
pub(super) fn one_thread(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Contest>> {
    let mut sides = sides(&[Who::Sqlite, Who::Lmdb, Who::Redb, Who::Rocksdb], folder)?;
    let mut contests = take_turns(&["file-put"], size.rounds, true, &mut sides, |round, _, side| {
        let mut rng = Rng::with_seed(seed ^ (round as u64) << 32);
        let puts: Vec<_> = (0..size.puts).map(|_| rng.u64(..)).map(|key| (key, value_of(key))).collect();
        let (lap, done): (Lap, Result<()>) =
            lap(size.puts as u64, || puts.iter().try_for_each(|(key, value)| side.store.put(*key, value)));
        done?;
        side.acknowledged.extend(puts.iter().map(|(key, _)| *key));
        Ok(vec![lap])
    })?;
    let digests = sides.iter().map(|(who, side)| Ok((*who, side.check()?)));
    contests[0].digest = same_digest("file-put", &digests.collect::<Result<Vec<_>>>()?)?;
    Ok(contests)
}

/// Puts from many threads: random keys, then rising ones, into stores of their own.
pub(super) fn many_threads(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Contest>> {
    let mut contests = Vec::new();
    for (work, sequential) in [("file-put-16", false), ("file-put-16-sequential", true)] {
        let folder = folder.join(work);
        std::fs::create_dir(&folder)?;
        let peers = [Who::Libpmemobj, Who::Sqlite, Who::Lmdb, Who::Redb, Who::Rocksdb];
        let mut sides = sides(&peers, &folder)?;
        let mut contest = take_turns(&[work], size.rounds, true, &mut sides, |round, _, side| {
            let next = sequential.then(|| AtomicU64::new(side.acknowledged.len() as u64));
            let (lap, keys) =
                crowd(side.store.as_ref(), size.lap, seed ^ (round as u64) << 32, next.as_ref())?;
            side.acknowledged.extend(keys);
            Ok(vec![lap])
        })?;
        for (who, side) in &sides {
            side.check().with_context(|| format!("{who} in {work}"))?;
            contest[0].digest += 1;
        }
        contests.append(&mut contest);
    }
    Ok(contests)
}

/// Lets all threads put for `length`; returns the keys that were acknowledged. `next` gives out rising keys; without
/// it, each thread draws random ones.
fn crowd(
    store: &dyn Store,
    length: Duration,
    seed: u64,
    next: Option<&AtomicU64>,
) -> Result<(Lap, Vec<u64>)> {
    let (start, stop) = (Barrier::new(THREADS + 1), AtomicBool::new(false));
    let worker = |thread: usize| -> Result<Vec<u64>> {
        let mut rng = Rng::with_seed(seed ^ (thread as u64) << 48);
        let mut keys = Vec::new();
        start.wait();
        // ORDER: nothing is read on the word of the flag, it only ends the lap.
        while !stop.load(Ordering::Relaxed) {
            // ORDER: the counter alone is shared.
            let key = next.map_or_else(|| rng.u64(..), |next| next.fetch_add(1, Ordering::Relaxed));
            store.put(key, &value_of(key))?;
            keys.push(key);
        }
        Ok(keys)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || worker(thread))).collect();
        start.wait();
        let (mut lap, keys) = lap(0, || {
            thread::sleep(length);
            // ORDER: as at the load.
            stop.store(true, Ordering::Relaxed);
            let all =
                threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
            all.collect::<Result<Vec<_>>>()
        });
        let keys = keys?.concat();
        lap.ops = keys.len() as u64;
        Ok((lap, keys))
    })
}
