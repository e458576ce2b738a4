//! Where the cycles of an operation go: by passes in which its parts are timed.
//!
//! A fence waits for every store before it, so a home store that misses the caches is paid for at the fence of the
//! next transaction: it counts as log.

use super::area::Area;
use super::pool;
use super::timed::{Part, Timed};
use super::tree::TreePool;
use crate::clock::{glance, lap};
use crate::contender::{AREA_WORDS, SLOTS, Transactions};
use crate::keys::{KeySet, Keys};
use anyhow::Result;
use fastrand::Rng;
use lode_heap::{Heap, HeapError};
use lode_layout::WORD;
use lode_pmem::{Medium, Rung, checksum};
use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::path::Path;

/// Operations over which the parts that have a cost of their own are timed.
const TIMES: u64 = 100_000;

/// Ticks of each part of one operation.
struct Budget {
    total: f64,
    parts: Vec<(&'static str, f64)>,
    record_bytes: f64,
}

impl Budget {
    /// `total` ticks for each of `ops` operations, and what the medium says of a pass with as many.
    fn new(total: f64, ops: u64, heap: &Heap<Timed>) -> Budget {
        let each = |part| heap.medium().spent(part).ticks as f64 / ops as f64;
        let record_bytes = heap.medium().spent(Part::Log).bytes as f64 / ops as f64;
        let parts = vec![
            ("begin and end", empty_transaction(heap)),
            ("checksum", checksum_of(record_bytes)),
            ("copy and fence", each(Part::Log)),
            ("home stores", each(Part::Home)),
            ("flushes of checkpoints", each(Part::Checkpoint)),
        ];
        Budget { total, parts, record_bytes }
    }

    /// One line of text.
    fn line(&self, work: &str, rest: &str) -> String {
        let known: f64 = self.parts.iter().map(|(_, ticks)| ticks).sum();
        let mut line = format!("{work}: {:.0} cycles", self.total);
        for (part, ticks) in &self.parts {
            // Writing to a string does not fail.
            let _ = write!(line, ", {part} {ticks:.0}");
        }
        let _ = write!(line, ", {rest} {:.0} (record {:.0} bytes)", self.total - known, self.record_bytes);
        line
    }
}

fn per_op(ops: u64, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (lap, done) = lap(ops, work);
    done?;
    Ok(lap.cycles as f64 / ops as f64)
}

/// Ticks of a transaction that changes nothing.
fn empty_transaction<M: Medium>(heap: &Heap<M>) -> f64 {
    let (lap, _) = lap(TIMES, || (0..TIMES).try_for_each(|_| heap.run(|_| Ok::<_, HeapError>(()))));
    lap.cycles as f64 / TIMES as f64
}

/// Ticks of the checksum of a record of so many bytes.
fn checksum_of(bytes: f64) -> f64 {
    let words = vec![7; (bytes / WORD as f64) as usize];
    // One waits for the other, as a record waits for its checksum.
    let (lap, sum) = lap(TIMES, || (0..TIMES).fold(0, |sum, _| checksum(sum, black_box(&words))));
    black_box(sum);
    lap.cycles as f64 / TIMES as f64
}

/// The budgets of the transactions.
pub(super) fn of_transactions(folder: &Path, count: usize) -> Result<Vec<String>> {
    type Run<'a> = dyn Fn(&mut dyn Transactions) -> Result<()> + 'a;
    let mut rng = Rng::with_seed(1);
    let mut places = |ranges: usize| (0..count * ranges).map(|_| rng.u32(..AREA_WORDS)).collect::<Vec<_>>();
    let (one, four, sixteen) = (places(1), places(4), places(16));
    let slots: Vec<u32> = one.iter().map(|place| place % SLOTS).collect();
    let works: [(&str, &Run<'_>); 5] = [
        ("tx-1", &|side| side.change(&one, 1)),
        ("tx-4", &|side| side.change(&four, 4)),
        ("tx-16", &|side| side.change(&sixteen, 16)),
        ("tx-alloc", &|side| side.replace(&slots)),
        ("alloc-free", &|side| side.alloc_free(count)),
    ];
    let path = folder.join("phases");
    let mut lines = Vec::new();
    for (work, run) in works {
        let mut plain = Area::create(&path, Rung::Line, pool::plain)?;
        run(&mut plain)?;
        let total = per_op(count as u64, || run(&mut plain))?;
        drop(plain);
        fs::remove_file(&path)?;
        // The pass before the one that counts warms up in both: half of what the timed pool says.
        let mut timed = Area::create(&path, Rung::Line, Timed::new)?;
        run(&mut timed)?;
        run(&mut timed)?;
        lines.push(Budget::new(total, 2 * count as u64, timed.heap()).line(work, "composing the record"));
        drop(timed);
        fs::remove_file(&path)?;
    }
    Ok(lines)
}

/// The budget of art-insert-random.
pub(super) fn of_inserts(folder: &Path, keys: usize) -> Result<String> {
    let keys = Keys::new(KeySet::Random, keys, &mut Rng::with_seed(1))?;
    let ops = keys.len() as u64;
    let path = folder.join("phases");
    let plain = TreePool::create(&path, Rung::Line, keys.len(), pool::plain)?;
    let total = per_op(ops, || plain.insert_all(&keys))?;
    drop(plain);
    fs::remove_file(&path)?;
    let descend = descend(&path, &keys)?;
    let timed = TreePool::create(&path, Rung::Line, keys.len(), Timed::new)?;
    timed.insert_all(&keys)?;
    let mut budget = Budget::new(total, ops, timed.heap());
    budget.parts.insert(0, ("descend", descend));
    drop(timed);
    fs::remove_file(&path)?;
    Ok(budget.line("art-insert-random", "locks, allocating, composing the record"))
}

/// Ticks of finding the place of a key that is not there yet, over the whole way from an empty tree to a full one.
fn descend(path: &Path, keys: &Keys) -> Result<f64> {
    let pool = TreePool::create(path, Rung::Line, keys.len(), pool::plain)?;
    let tree = pool.tree()?;
    let mut ticks = 0;
    for (key, id) in keys.iter() {
        let reader = tree.reader();
        let began = glance();
        let found = reader.get(key)?;
        ticks += glance().wrapping_sub(began);
        anyhow::ensure!(found.is_none(), "a key is there before it was inserted");
        drop(reader);
        tree.insert(key, &id.to_le_bytes())?;
    }
    drop(pool);
    fs::remove_file(path)?;
    Ok(ticks as f64 / keys.len() as f64)
}
