//! scan-while-writing and scan-while-writing-puts: scans of a snapshot beside two writers, over each of them alone.

use crate::pairs::Pairs;
use crate::plan::Size;
use crate::rounds::median;
use anyhow::{Context, Result, anyhow, ensure};
use fastrand::Rng;
use lode_heap::Heap;
use lode_index::{Entry, IndexError, Tree, TreeSnapshot};
use lode_layout::{Geometry, PoolOffset};
use lode_pmem::{Durability, Mapping};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Threads that write.
const WRITERS: u64 = 2;
/// Bytes of a key, of a value, and of a pool for each pair and beside all of them.
const KEY_LEN: usize = 16;
const VALUE_LEN: usize = 100;
const PAIR_ROOM: u64 = 512;
const POOL_LEN_MIN: u64 = 64 << 20;

/// A store of pairs.
struct Scanned {
    heap: Heap<Mapping>,
    root: PoolOffset,
    pairs: Pairs,
}

/// The kind of scan that reads all pairs beside the writers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scan {
    Nothing,
    Snapshot,
    /// A scan that sees each key as it is when it comes to it.
    Plain,
}

/// The rates of a lap, in a second.
#[derive(Clone, Copy, Default)]
struct Rates {
    puts: f64,
    entries: f64,
}

/// The rates beside each other, over those alone.
pub(super) struct Beside {
    /// Entries that a scan of a snapshot reads beside writers, over those that it reads alone.
    pub(super) scan: f64,
    /// Puts beside a scan of a snapshot, over those beside nothing.
    pub(super) puts: f64,
    /// Both ratios again, and those of a plain scan.
    pub(super) note: String,
}

impl Scanned {
    fn new(size: &Size) -> Result<Scanned> {
        let pairs = Pairs::random(size.store_keys, KEY_LEN, VALUE_LEN, &mut Rng::with_seed(1));
        let len = POOL_LEN_MIN + size.store_keys as u64 * PAIR_ROOM;
        let medium = Mapping::options().durability(Durability::Line).map_anonymous(len)?;
        let geometry = Geometry::plan(len)?;
        Heap::format(&medium, &geometry, &[1; 16], [1, 1])?;
        let (heap, _) = Heap::open(medium, &geometry, [1; 16], [2, 2])?;
        let root = heap.run(Tree::create)?;
        let tree = Tree::open(&heap, root)?;
        for place in 0..pairs.len() {
            let (key, value) = pairs.pair(place);
            tree.insert(key, value)?;
        }
        Ok(Scanned { heap, root, pairs })
    }

    /// Returns the number of entries of one scan.
    fn scan(&self, scan: Scan) -> Result<u64> {
        fn count(mut entries: impl Iterator<Item = Result<Entry, IndexError>>) -> Result<u64, IndexError> {
            entries.try_fold(0, |count, entry| Ok(count + u64::from(!entry?.value.is_empty())))
        }
        let found = match scan {
            Scan::Nothing => return Ok(0),
            Scan::Snapshot => {
                let snapshot = self.heap.snapshot()?;
                count(TreeSnapshot::open(&snapshot, self.root)?.iter())?
            }
            Scan::Plain => count(Tree::open(&self.heap, self.root)?.reader().iter())?,
        };
        ensure!(found == self.pairs.len() as u64, "a scan found {found} entries");
        Ok(found)
    }

    /// Puts until `stop` is set. Returns the number of puts.
    fn put(&self, seed: u64, stop: &AtomicBool) -> Result<u64> {
        let tree = Tree::open(&self.heap, self.root)?;
        let (mut rng, mut value, mut puts) = (Rng::with_seed(seed), vec![0; VALUE_LEN], 0);
        // ORDER: nothing is read on the word of the flag, it only ends the lap.
        while !stop.load(Ordering::Relaxed) {
            let (key, _) = self.pairs.pair(rng.usize(..self.pairs.len()));
            rng.fill(&mut value);
            tree.insert(key, &value)?;
            puts += 1;
        }
        Ok(puts)
    }

    /// Scans and puts for `length`, or as long as one scan takes.
    fn lap(&self, scan: Scan, writers: u64, length: Duration, seed: u64) -> Result<Rates> {
        let stop = AtomicBool::new(false);
        let began = Instant::now();
        let (entries, puts) = thread::scope(|scope| {
            let puts = |writer| self.put(seed ^ writer << 32, &stop);
            let writers: Vec<_> = (0..writers).map(|writer| scope.spawn(move || puts(writer))).collect();
            let mut entries = self.scan(scan);
            while began.elapsed() < length && scan != Scan::Nothing {
                entries = entries.and_then(|entries| Ok(entries + self.scan(scan)?));
            }
            thread::sleep(length.saturating_sub(began.elapsed()));
            // ORDER: as at the load.
            stop.store(true, Ordering::Relaxed);
            let all =
                writers.into_iter().map(|writer| writer.join().map_err(|_| anyhow!("a thread panicked"))?);
            (entries, all.sum::<Result<u64>>())
        });
        let seconds = began.elapsed().as_secs_f64();
        Ok(Rates { puts: puts? as f64 / seconds, entries: entries? as f64 / seconds })
    }
}

/// Measures scans and writers in turn.
pub(super) fn beside(size: &Size) -> Result<Beside> {
    let scanned = Scanned::new(size)?;
    let mut ratios: [Vec<f64>; 4] = Default::default();
    for round in 0..size.long_rounds as u64 {
        let lap = |scan, writers| scanned.lap(scan, writers, size.lap * 2, round);
        let writers = lap(Scan::Nothing, WRITERS)?;
        for (scan, ratios) in [Scan::Snapshot, Scan::Plain].into_iter().zip(ratios.chunks_mut(2)) {
            let (alone, both) = (lap(scan, 0)?, lap(scan, WRITERS)?);
            ratios[0].push(both.entries / alone.entries);
            ratios[1].push(both.puts / writers.puts);
        }
    }
    let [scan, puts, plain_scan, plain_puts] = ratios.map(|ratios| median(&ratios));
    let cores = thread::available_parallelism().context("the number of cores")?;
    let note = format!(
        "scan-while-writing: on {cores} cores, a snapshot's scan {scan:.2} and its writers {puts:.2}; a plain scan \
         {plain_scan:.2} and its writers {plain_puts:.2}"
    );
    Ok(Beside { scan, puts, note })
}
