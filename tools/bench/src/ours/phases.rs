//! The phases of an operation, in cycles. They add up to the whole.
//!
//! A time stamp after a fence does not see the fence, so no phase is timed inside of an operation. Each is the difference
//! of two passes, the second of which leaves something more out:
//!
//! 1. the whole operation,
//! 2. without flushes,
//! 3. and without the copy of the record and its fence,
//! 4. and without stores in place,
//! 5. the closure alone, which then fails, so that all is rolled back,
//! 6. a closure that does nothing.
//!
//! A fence waits for every store before it, so its phase includes the wait for stores in place that missed the caches.
//! An operation that reads again what it stored can't leave stores in place out. They are timed, each on its own, and one
//! that is timed alone waits for its own completion.

use super::area::Area;
use super::partial::{HomeStores, Partial, Parts};
use super::pool::Mapped;
use super::tree::TreePool;
use crate::clock::{lap, ticks};
use crate::engine::{AREA_WORDS, SLOTS, Transactions};
use crate::keys::{KeySet, Keys};
use anyhow::{Result, ensure};
use fastrand::Rng;
use lode_heap::{Heap, HeapError};
use lode_index::IndexError;
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

const WHOLE: Parts = Parts { log: true, flushes: true, home: HomeStores::Done };
const UNFLUSHED: Parts = Parts { flushes: false, ..WHOLE };
const UNLOGGED: Parts = Parts { log: false, ..UNFLUSHED };
const TIMED: Parts = Parts { home: HomeStores::Timed, ..UNLOGGED };
const UNSTORED: Parts = Parts { home: HomeStores::LeftOut, ..UNLOGGED };

/// The result of a pass.
struct Pass {
    /// Ticks of one operation.
    ticks: f64,
    /// Ticks of its stores in place, if they were timed.
    home: f64,
    /// Bytes of its records.
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

/// An operation whose phases are wanted.
struct Operation<'a> {
    workload: &'a str,
    /// Number of its transactions.
    transactions: f64,
    /// True if it reads words again that it stored.
    reads_again: bool,
    /// Ticks of its closures, each of which fails at its end.
    closure: f64,
}

/// One line about the phases of an operation; `pass` makes one pass.
fn cycle_breakdown(operation: &Operation<'_>, mut pass: impl FnMut(Parts) -> Result<Pass>) -> Result<String> {
    let mut best = |parts| -> Result<Pass> {
        let passes = (0..PASSES).map(|_| pass(parts)).collect::<Result<Vec<_>>>()?;
        Ok(passes.into_iter().min_by(|a, b| a.ticks.total_cmp(&b.ticks)).expect("more than none"))
    };
    let (whole, unflushed, unlogged) = (best(WHOLE)?, best(UNFLUSHED)?, best(UNLOGGED)?);
    let home = if operation.reads_again { best(TIMED)?.home } else { unlogged.ticks - best(UNSTORED)?.ticks };
    let empty = whole.empty * operation.transactions;
    let checksum = checksum_of(whole.record_bytes / operation.transactions) * operation.transactions;
    let phases = [
        ("begin and end", empty),
        ("closure", operation.closure - empty),
        ("checksum", checksum),
        ("lane and dirty lines", unlogged.ticks - home - operation.closure - checksum),
        ("copy and fence", unflushed.ticks - unlogged.ticks),
        ("stores in place", home),
        ("flushes of checkpoints", whole.ticks - unflushed.ticks),
    ];
    let mut line = format!("{}: {:.0} cycles", operation.workload, whole.ticks);
    for (phase, ticks) in phases {
        // Writing to a string does not fail.
        let _ = write!(line, ", {phase} {ticks:.0}");
    }
    let _ = write!(line, " (record {:.0} bytes)", whole.record_bytes);
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

/// The phases of the transactions.
pub(super) fn transaction_breakdowns(folder: &Path, count: usize) -> Result<Vec<String>> {
    type Run<'a> = dyn Fn(&mut Area<Partial>) -> Result<()> + 'a;
    let mut rng = Rng::with_seed(1);
    let mut places = |ranges: usize| (0..count * ranges).map(|_| rng.u32(..AREA_WORDS)).collect::<Vec<_>>();
    let (one, four, sixteen) = (places(1), places(4), places(16));
    let slots: Vec<u32> = one.iter().map(|place| place % SLOTS).collect();
    // A workload, the number of its transactions, true if they read again what they stored, the operation, and its closures alone.
    let workloads: [(&str, f64, bool, &Run<'_>, &Run<'_>); 5] = [
        ("tx-1", 1.0, false, &|side| side.change(&one, 1), &|side| side.abandon_change(&one, 1)),
        ("tx-4", 1.0, false, &|side| side.change(&four, 4), &|side| side.abandon_change(&four, 4)),
        ("tx-16", 1.0, false, &|side| side.change(&sixteen, 16), &|side| side.abandon_change(&sixteen, 16)),
        ("tx-alloc", 1.0, true, &|side| side.replace(&slots), &|side| side.abandon_replace(&slots)),
        ("alloc-free", 2.0, true, &|side| side.alloc_free(count), &|side| side.abandon_alloc_free(count)),
    ];
    let path = folder.join("phases");
    let lines = workloads.into_iter().map(|(workload, transactions, reads_again, run, closures)| {
        let pass = |parts, runs: &Run<'_>| {
            let mut area = Area::create(&path, Durability::Line, |medium| Partial::new(medium, parts))?;
            // From the first timed operation on, rings wrap and blocks are used again.
            run(&mut area)?;
            let pass = Pass::time(&mut area, Area::heap, count as u64, |area| runs(area));
            fs::remove_file(&path)?;
            pass
        };
        let operation =
            Operation { workload, transactions, reads_again, closure: pass(WHOLE, closures)?.ticks };
        cycle_breakdown(&operation, |parts| pass(parts, run))
    });
    lines.collect()
}

/// The phases of art-insert-random.
pub(super) fn insert_breakdown(folder: &Path, keys: usize) -> Result<String> {
    let keys = Keys::new(KeySet::Random, keys, &mut Rng::with_seed(1))?;
    let path = folder.join("phases");
    let make = |parts| {
        TreePool::create(&path, Durability::Line, keys.len(), |medium: Mapped| Partial::new(medium, parts))
    };
    let abandoned = abandon_inserts(&make(WHOLE)?, &keys)?;
    fs::remove_file(&path)?;
    let operation = Operation {
        workload: "art-insert-random",
        transactions: 1.0,
        reads_again: true,
        closure: abandoned.closure,
    };
    let line = cycle_breakdown(&operation, |parts| {
        let pass =
            Pass::time(&mut make(parts)?, TreePool::heap, keys.len() as u64, |tree| tree.insert_all(&keys));
        fs::remove_file(&path)?;
        pass
    })?;
    Ok(format!("{line}; of the closure {:.0} are the descent", abandoned.descent))
}

/// Ticks of parts of an insert, over the whole way from an empty tree to a full one.
struct AbandonedInsert {
    /// Finding the place of a key that is not there yet.
    descent: f64,
    /// The closure of the transaction, which fails at its end.
    closure: f64,
}

/// Inserts all keys. Before each, in turn, the place of the key is found, or a transaction inserts it and fails.
fn abandon_inserts(pool: &TreePool<Partial>, keys: &Keys) -> Result<AbandonedInsert> {
    let tree = pool.tree()?;
    let timing = (0..1000).map(|_| ticks().abs_diff(ticks())).min().unwrap_or(0);
    let (mut descents, mut closures, mut count) = (0, 0, 0);
    for ((key, id), is_descent) in keys.iter().zip([true, false].into_iter().cycle()) {
        let began = ticks();
        if is_descent {
            let reader = tree.reader();
            let found = reader.get_unchecked(key)?;
            descents += ticks().wrapping_sub(began).saturating_sub(timing);
            ensure!(found.is_none(), "a key is there before it was inserted");
            drop(reader);
        } else {
            let abandoned = pool.heap().run(|tx| {
                tree.insert_in(tx, key, &id.to_le_bytes())?;
                Err::<(), IndexError>(HeapError::NestedFailed.into())
            });
            closures += ticks().wrapping_sub(began).saturating_sub(timing);
            ensure!(abandoned.is_err(), "a failed insert is there");
            count += 1;
        }
        tree.insert(key, &id.to_le_bytes())?;
    }
    let each = |sum: u64| sum as f64 / f64::from(count);
    Ok(AbandonedInsert { descent: each(descents), closure: each(closures) })
}
