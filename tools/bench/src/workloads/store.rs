//! store-*: the rows of redb's own bench, which people compare first, made fair.
//!
//! Pairs are made before the clock. Sides take turns, with a fresh store in each round, and the rows of a round share it.
//! Each acknowledged commit is synced; strace counts the syncs. A transaction of ours that takes too long is given up:
//! its row is N/A, and the changes are made in parts, so that the next rows find the same store.

use super::Findings;
use super::databases;
use super::reopen::syncs_of_commits;
use crate::clock::{Lap, lap};
use crate::engine::{Engine, WholeDatabase};
use crate::pairs::Pairs;
use crate::plan::{Selection, Size};
use crate::rounds::{Measured, common_digest, run_interleaved};
use anyhow::{Result, anyhow, ensure};
use fastrand::Rng;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

/// Bytes of a key, and of a value.
const KEY_LEN: usize = 24;
const VALUE_LEN: usize = 150;
/// Pairs of a range.
const RANGE: usize = 10;
/// Changes of a commit of `store-batch`, and of one that replaces a part of a transaction that was given up.
const BATCH: usize = 1000;
const PART: usize = 100;
/// The first byte of keys after a third of all random ones.
const THIRD: u8 = 0x55;
/// The rows of threads, and how many each has.
const THREADS: [(&str, usize); 4] =
    [("store-reads-4", 4), ("store-reads-8", 8), ("store-reads-16", 16), ("store-reads-32", 32)];
/// Commits whose syncs are counted.
const COMMITS: usize = 20;

const ENGINES: [Engine; 5] = [Engine::Ours, Engine::Redb, Engine::Lmdb, Engine::Sqlite, Engine::Rocksdb];

/// The pairs of a round.
struct Round {
    number: usize,
    bulk: Pairs,
    individual: Pairs,
    batches: Vec<Pairs>,
    unsynced: Pairs,
    reads: Pairs,
    ranges: Pairs,
    /// All pairs of `bulk`, shared out to threads.
    shares: Vec<(usize, Vec<Pairs>)>,
    removals: Pairs,
    sorted: Pairs,
    pops: usize,
}

impl Round {
    fn new(number: usize, scale: f64, seed: u64) -> Round {
        let mut rng = Rng::with_seed(seed ^ (number as u64) << 32);
        let scaled = |count: u32| ((f64::from(count) * scale) as usize).max(1);
        let mut random = |count| Pairs::random(count, KEY_LEN, VALUE_LEN, &mut rng);
        let bulk = random(scaled(5_000_000));
        let individual = random(scaled(1000));
        let batches = random(scaled(100) * BATCH).parts(BATCH);
        let unsynced = random(scaled(50_000));
        let shuffled = bulk.shuffled(&mut rng);
        let first = |count: usize| shuffled.parts(count).swap_remove(0);
        let (reads, ranges, removals) =
            (first(scaled(1_000_000)), first(scaled(500_000)), first(bulk.len().div_ceil(2)));
        let shares = THREADS
            .iter()
            .map(|(_, threads)| (*threads, shuffled.parts(bulk.len().div_ceil(*threads))))
            .collect();
        let sorted = Pairs::ascending(scaled(1_000_000), KEY_LEN, VALUE_LEN, &mut rng);
        Round {
            number,
            bulk,
            individual,
            batches,
            unsynced,
            reads,
            ranges,
            shares,
            removals,
            sorted,
            pops: scaled(500_000),
        }
    }
}

/// One engine.
struct Side {
    engine: Engine,
    path: PathBuf,
    /// Rows whose transactions were given up in an earlier round.
    given_up: HashSet<&'static str>,
    /// The digest of what was found in all rounds.
    digest: u64,
}

impl Side {
    /// Times a row of one transaction. If it is given up, `parts` makes the same changes.
    fn in_one<T>(
        &mut self,
        row: &'static str,
        ops: usize,
        one: impl FnOnce() -> Result<T>,
        parts: impl FnOnce() -> Result<T>,
    ) -> Result<(Measured, T)> {
        let again = "given up in an earlier round".to_owned();
        if self.given_up.contains(row) {
            return Ok((Measured::Absent(again), parts()?));
        }
        let (lap, done) = lap(ops as u64, one);
        match done {
            Ok(result) => Ok((Measured::Lap(lap), result)),
            Err(error) => {
                let measured = Measured::of(lap, Err::<(), _>(error))?;
                self.given_up.insert(row);
                Ok((measured, parts()?))
            }
        }
    }

    fn found(&mut self, digest: u64) {
        self.digest = self.digest.rotate_left(7) ^ digest;
    }

    /// All rows of one round, in order.
    fn run(&mut self, round: &Round, size: &Size) -> Result<Vec<Measured>> {
        let store = databases::open_whole(self.engine, &self.path, size.overdue)?;
        let mut measured = self.writes(store.as_ref(), round)?;
        measured.extend(self.reads(store.as_ref(), round)?);
        measured.push(self.remove(store.as_ref(), round)?);
        let (store, sizes) = self.compact(store, size)?;
        measured.extend(sizes);
        measured.extend(self.extract(store.as_ref())?);
        measured.extend(self.ends(store.as_ref(), round)?);
        store.close()?;
        databases::remove(&self.path)?;
        Ok(measured)
    }

    fn writes(&mut self, store: &dyn WholeDatabase, round: &Round) -> Result<Vec<Measured>> {
        let bulk = &round.bulk;
        let (bulk, ()) =
            self.in_one("store-bulk", bulk.len(), || store.put_all(bulk), || put_parts(store, bulk))?;
        let (individual, done) = lap(round.individual.len() as u64, || {
            round.individual.iter().try_for_each(|(key, value)| store.put(key, value))
        });
        done?;
        let batched = round.batches.iter().map(Pairs::len).sum::<usize>();
        let (batch, done) =
            lap(batched as u64, || round.batches.iter().try_for_each(|batch| store.put_all(batch)));
        let batch = Measured::of(batch, done)?;
        if let Measured::Absent(_) = batch {
            round.batches.iter().try_for_each(|batch| put_parts(store, batch))?;
        }
        let pairs = &round.unsynced;
        let (nosync, ()) = self.in_one(
            "store-nosync",
            pairs.len(),
            || store.put_each_unsynced(pairs),
            || put_parts(store, pairs),
        )?;
        self.found(store.scan()?);
        Ok(vec![bulk, individual.into(), batch, nosync])
    }

    fn reads(&mut self, store: &dyn WholeDatabase, round: &Round) -> Result<Vec<Measured>> {
        let (len, count) = lap(1, || store.count());
        self.found(count?);
        let len = match self.engine {
            Engine::Rocksdb => Measured::Absent("RocksDB does not know the number of its keys".to_owned()),
            _ => len.into(),
        };
        let mut reader = store.reader()?;
        let (reads, digests) = lap(2 * round.reads.len() as u64, || {
            anyhow::Ok([reader.get_all(&round.reads)?, reader.get_all(&round.reads)?])
        });
        digests?.into_iter().for_each(|digest| self.found(digest));
        let (ranges, digests) = lap(2 * round.ranges.len() as u64, || {
            anyhow::Ok([reader.ranges(&round.ranges, RANGE)?, reader.ranges(&round.ranges, RANGE)?])
        });
        digests?.into_iter().for_each(|digest| self.found(digest));
        drop(reader);
        let mut measured = vec![len, reads.into(), ranges.into()];
        for (_, shares) in &round.shares {
            let (lap, digest) = read_shares(store, shares)?;
            self.found(digest);
            measured.push(lap.into());
        }
        Ok(measured)
    }

    fn remove(&mut self, store: &dyn WholeDatabase, round: &Round) -> Result<Measured> {
        let keys = &round.removals;
        let in_parts = || keys.parts(PART).iter().try_for_each(|part| store.remove_all(part));
        let (removals, ()) =
            self.in_one("store-removals", keys.len(), || store.remove_all(keys), in_parts)?;
        self.found(store.scan()?);
        Ok(removals)
    }

    /// Compacts the store, or replaces it with its compact copy, between measuring its sizes.
    fn compact(
        &mut self,
        store: Box<dyn WholeDatabase>,
        size: &Size,
    ) -> Result<(Box<dyn WholeDatabase>, [Measured; 3])> {
        let (path, open) = (&self.path, || databases::open_whole(self.engine, &self.path, size.overdue));
        let ops = store.count()?;
        let bytes =
            |path: &Path| anyhow::Ok(Lap { ops, bytes: databases::disk_bytes(path)?, ..Lap::default() });
        store.close()?;
        let (before, beside) = (bytes(path)?, path.with_extension("compact"));
        let store = open()?;
        let (compaction, done) = lap(1, || store.compact(&beside));
        done?;
        if beside.exists() {
            databases::remove(path)?;
            fs::rename(&beside, path)?;
        }
        let after = bytes(path)?;
        let store = open()?;
        self.found(store.scan()?);
        Ok((store, [before, compaction, after].map(Measured::from)))
    }

    fn extract(&mut self, store: &dyn WholeDatabase) -> Result<[Measured; 2]> {
        let (retain, done) = lap(store.count()?, || store.retain());
        done?;
        let (extract, digest) = lap(store.count()?.div_ceil(3), || store.extract_if(&[THIRD; KEY_LEN]));
        self.found(digest?);
        self.found(store.scan()?);
        Ok([retain, extract].map(Measured::from))
    }

    fn ends(&mut self, store: &dyn WholeDatabase, round: &Round) -> Result<[Measured; 2]> {
        let count = usize::try_from(store.count()?)?.min(round.pops);
        let pop_parts = || pop_parts(store, count);
        // The digest of popped pairs depends on the parts, so the pairs that stay are compared instead.
        let (pop, _) = self.in_one("store-pop", count, || store.pop(count), pop_parts)?;
        self.found(store.scan()?);
        let pairs = &round.sorted;
        let (sorted, ()) =
            self.in_one("store-sorted", pairs.len(), || store.append_all(pairs), || put_parts(store, pairs))?;
        self.found(store.scan()?);
        Ok([pop, sorted])
    }
}

fn put_parts(store: &dyn WholeDatabase, pairs: &Pairs) -> Result<()> {
    pairs.parts(PART).iter().try_for_each(|part| store.put_all(part))
}

/// Pops in transactions of an even number of pairs, so that first and last take turns as in one transaction.
fn pop_parts(store: &dyn WholeDatabase, count: usize) -> Result<u64> {
    let mut digest = 0;
    for begin in (0..count).step_by(PART) {
        digest ^= store.pop(PART.min(count - begin))?;
    }
    Ok(digest)
}

/// Reads all shares, a thread each.
fn read_shares(store: &dyn WholeDatabase, shares: &[Pairs]) -> Result<(Lap, u64)> {
    let start = Barrier::new(shares.len() + 1);
    let read = |share: &Pairs| {
        let reader = store.reader();
        start.wait();
        reader?.get_all(share)
    };
    let read = &read;
    thread::scope(|scope| {
        let threads: Vec<_> = shares.iter().map(|share| scope.spawn(move || read(share))).collect();
        start.wait();
        let (lap, digests) = lap(shares.iter().map(|share| share.len() as u64).sum(), || {
            let all =
                threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
            all.collect::<Result<Vec<u64>>>()
        });
        Ok((lap, digests?.into_iter().fold(0, |sum: u64, digest| sum.rotate_left(5) ^ digest)))
    })
}

/// The rows, in the order in which a round runs them.
const ROWS: [&str; 19] = [
    "store-bulk",
    "store-individual",
    "store-batch",
    "store-nosync",
    "store-len",
    "store-reads",
    "store-ranges",
    THREADS[0].0,
    THREADS[1].0,
    THREADS[2].0,
    THREADS[3].0,
    "store-removals",
    "store-size",
    "store-compaction",
    "store-compacted-size",
    "store-retain",
    "store-extract-if",
    "store-pop",
    "store-sorted",
];

/// Runs all rows, and keeps the selected ones.
pub(super) fn run(selection: &Selection, size: &Size, seed: u64, folder: &Path) -> Result<Findings> {
    let mut engines = ENGINES.map(|engine| {
        let path = folder.join(format!("{engine}-store"));
        (engine, Side { engine, path, given_up: HashSet::new(), digest: 0 })
    });
    let mut round = Round::new(1, size.scale, seed);
    let mut comparisons =
        run_interleaved(&ROWS, size.load_rounds, false, &mut engines, |number, _, side| {
            if round.number != number {
                round = Round::new(number, size.scale, seed);
            }
            side.run(&round, size)
        })?;
    let digests: Vec<_> = engines.iter().map(|(engine, side)| (*engine, side.digest)).collect();
    for comparison in &mut comparisons {
        comparison.digest = common_digest(&comparison.workload, &digests)?;
    }
    comparisons.retain(|comparison| selection.has(&comparison.workload));
    let mut syncs = Vec::new();
    for engine in ENGINES {
        let path = folder.join(format!("{engine}-syncs"));
        databases::open_whole(engine, &path, size.overdue)?.close()?;
        syncs.push(format!("{engine} {}", syncs_of_commits(engine, &path, COMMITS)?));
        databases::remove(&path)?;
    }
    ensure!(fs::read_dir(folder)?.count() == 0, "files are left in {}", folder.display());
    let notes = vec![
        format!(
            "store: --scale {}, {} rounds; transactions of RocksDB are split at 100,000 writes",
            size.scale, size.load_rounds
        ),
        format!(
            "store: syncs of {COMMITS} commits of one pair, counted by strace: {}; each of LMDB also writes its \
             meta page through a file that is opened with O_DSYNC",
            syncs.join(", ")
        ),
    ];
    Ok(Findings { comparisons, notes, ..Findings::default() })
}
