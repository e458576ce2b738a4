//! A breakdown of the cycles of an operation.
//!
//! Flushes and log writes are measured by leaving them out: the time that the operation saves is their cost. A fence
//! waits for every store before it, so that cost includes the wait for stores in place that missed the caches. The
//! other parts are timed on their own. The remainder is reported as the rest. A store in place that is timed alone
//! waits for its own completion; in the whole operation the fence hides that wait. So the sum of the parts may exceed
//! the whole.

use super::area::Area;
use super::partial::{Partial, Parts};
use super::pool::Mapped;
use super::tree::TreePool;
use crate::clock::{lap, ticks};
use crate::engine::{AREA_WORDS, SLOTS, Transactions};
use crate::keys::{KeySet, Keys};
use anyhow::{Result, ensure};
use fastrand::Rng;
use lode_heap::{Heap, HeapError};
use lode_layout::WORD;
use lode_pmem::{Durability, checksum};
use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::path::Path;

/// Operations over which the parts that can be had alone are timed.
const TIMES: u64 = 100_000;
/// Times that each pass is made; the fastest counts, which others disturbed least.
const PASSES: usize = 3;

const WHOLE: Parts = Parts { log: true, flushes: true, timing: false };
const UNFLUSHED: Parts = Parts { flushes: false, ..WHOLE };
const UNLOGGED: Parts = Parts { log: false, ..UNFLUSHED };
const TIMED: Parts = Parts { timing: true, ..UNLOGGED };

/// The result of a pass.
struct Pass {
    /// Ticks of one operation.
    ticks: f64,
    /// Ticks of its stores in place, if they were timed.
    home: f64,
    /// Bytes of its record.
    record_bytes: f64,
    /// Ticks of a transaction that changes nothing.
    empty: f64,
}

impl Pass {
    /// Times `ops` operations of an engine.
    fn time<S>(
        side: &mut S,
        heap: impl for<'a> Fn(&'a S) -> &'a Heap<Partial>,
        ops: u64,
        run: impl FnOnce(&mut S) -> Result<()>,
    ) -> Result<Pass> {
        let (home, bytes) = (heap(side).medium().home_ticks(), heap(side).medium().log_bytes());
        let (timed, done) = lap(ops, || run(side));
        done?;
        let heap = heap(side);
        let each = |sum: u64| sum as f64 / ops as f64;
        let (home, bytes) = (heap.medium().home_ticks() - home, heap.medium().log_bytes() - bytes);
        let (empty, _) = lap(TIMES, || (0..TIMES).try_for_each(|_| heap.run(|_| Ok::<_, HeapError>(()))));
        Ok(Pass {
            ticks: each(timed.cycles),
            home: each(home),
            record_bytes: each(bytes),
            empty: empty.cycles as f64 / TIMES as f64,
        })
    }
}

/// One line about where the cycles of a workload go; `pass` makes one pass.
fn cycle_breakdown(
    workload: &str,
    also: Option<(&str, f64)>,
    mut pass: impl FnMut(Parts) -> Result<Pass>,
) -> Result<String> {
    let mut best = |parts| -> Result<Pass> {
        let passes = (0..PASSES).map(|_| pass(parts)).collect::<Result<Vec<_>>>()?;
        Ok(passes.into_iter().min_by(|a, b| a.ticks.total_cmp(&b.ticks)).expect("more than none"))
    };
    let (whole, unflushed, unlogged, timed) = (best(WHOLE)?, best(UNFLUSHED)?, best(UNLOGGED)?, best(TIMED)?);
    let parts = [
        ("begin and end", whole.empty),
        ("checksum", checksum_of(whole.record_bytes)),
        ("copy and fence", unflushed.ticks - unlogged.ticks),
        ("stores in place", timed.home),
        ("flushes of checkpoints", whole.ticks - unflushed.ticks),
    ];
    let mut line = format!("{workload}: {:.0} cycles", whole.ticks);
    let mut rest = whole.ticks;
    for (part, ticks) in also.into_iter().chain(parts) {
        // Writing to a string does not fail.
        let _ = write!(line, ", {part} {ticks:.0}");
        rest -= ticks;
    }
    let _ = write!(line, ", the rest {rest:.0} (record {:.0} bytes)", whole.record_bytes);
    Ok(line)
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
pub(super) fn transaction_breakdowns(folder: &Path, count: usize) -> Result<Vec<String>> {
    type Run<'a> = dyn Fn(&mut dyn Transactions) -> Result<()> + 'a;
    let mut rng = Rng::with_seed(1);
    let mut places = |ranges: usize| (0..count * ranges).map(|_| rng.u32(..AREA_WORDS)).collect::<Vec<_>>();
    let (one, four, sixteen) = (places(1), places(4), places(16));
    let slots: Vec<u32> = one.iter().map(|place| place % SLOTS).collect();
    let workloads: [(&str, &Run<'_>); 5] = [
        ("tx-1", &|side| side.change(&one, 1)),
        ("tx-4", &|side| side.change(&four, 4)),
        ("tx-16", &|side| side.change(&sixteen, 16)),
        ("tx-alloc", &|side| side.replace(&slots)),
        ("alloc-free", &|side| side.alloc_free(count)),
    ];
    let path = folder.join("phases");
    let lines = workloads.iter().map(|(workload, run)| {
        cycle_breakdown(workload, None, |parts| {
            let mut area = Area::create(&path, Durability::Line, |medium| Partial::new(medium, parts))?;
            // From the first timed operation on, rings wrap and blocks are used again.
            run(&mut area)?;
            let pass = Pass::time(&mut area, Area::heap, count as u64, |area| run(area));
            fs::remove_file(&path)?;
            pass
        })
    });
    lines.collect()
}

/// The budget of art-insert-random.
pub(super) fn insert_breakdown(folder: &Path, keys: usize) -> Result<String> {
    let keys = Keys::new(KeySet::Random, keys, &mut Rng::with_seed(1))?;
    let path = folder.join("phases");
    let make = |parts| {
        TreePool::create(&path, Durability::Line, keys.len(), |medium: Mapped| Partial::new(medium, parts))
    };
    let descend = descend(&make(WHOLE)?, &keys)?;
    fs::remove_file(&path)?;
    cycle_breakdown("art-insert-random", Some(("descend", descend)), |parts| {
        let pass =
            Pass::time(&mut make(parts)?, TreePool::heap, keys.len() as u64, |tree| tree.insert_all(&keys));
        fs::remove_file(&path)?;
        pass
    })
}

/// Ticks of finding the place of a key that is not there yet, over the whole way from an empty tree to a full one.
fn descend(pool: &TreePool<Partial>, keys: &Keys) -> Result<f64> {
    let tree = pool.tree()?;
    let timing = (0..1000).map(|_| ticks().abs_diff(ticks())).min().unwrap_or(0);
    let mut sum = 0;
    for (key, id) in keys.iter() {
        let reader = tree.reader();
        let began = ticks();
        let found = reader.get_unchecked(key)?;
        sum += ticks().wrapping_sub(began).saturating_sub(timing);
        ensure!(found.is_none(), "a key is there before it was inserted");
        drop(reader);
        tree.insert(key, &id.to_le_bytes())?;
    }
    Ok(sum as f64 / keys.len() as f64)
}
