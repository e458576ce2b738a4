//! The cost of each operation at each durability that this machine offers or can emulate.

use crate::demo::word_list::WordList;
use crate::demo::{DemoContext, POOL_SIZE, of_pool};
use crate::failure::Failure;
use crate::progress::Progress;
use lode_index::Tree;
use lode_kv::{KvError, Store};
use lode_layout::Durability;
use lode_pmem::{Counted, Counts, DurabilityEvidence, Mapping, Medium, cycles};
use lode_pool::{Access, CreateOptions, OpenOptions};
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Operations between two readings of the clock.
const LAP_LEN: usize = 32;
/// Longest time for which one operation is measured.
const TIME_MAX: Duration = Duration::from_millis(1500);
/// Largest number of operations whose drains, lines and bytes are counted.
const COUNTED_MAX: usize = 20_000;
/// A folder whose files are in memory.
const TMPFS: &str = "/dev/shm";

/// The operations, in the order in which they are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Insert,
    Reinsert,
    Lookup,
    Delete,
}

impl Operation {
    pub(super) const ALL: [Operation; 4] =
        [Operation::Insert, Operation::Reinsert, Operation::Lookup, Operation::Delete];

    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::Insert => "insert",
            Operation::Reinsert => "re-insert",
            Operation::Lookup => "lookup",
            Operation::Delete => "delete",
        }
    }
}

/// The measurements on one medium.
pub(super) struct Measurement {
    pub(super) durability: Durability,
    /// Description of the medium.
    pub(super) medium: String,
    /// True if the durability was forced and is not the one that the medium offers.
    pub(super) stand_in: bool,
    /// Number of keys that were inserted.
    pub(super) keys: usize,
    /// Bytes of the pool that each of them takes.
    pub(super) bytes_per_key: f64,
    /// Time to open the pool with all keys in it, after it was not closed.
    pub(super) reopen: Duration,
    pub(super) costs: Vec<Cost>,
}

/// The cost of one operation: times are medians, counts are means.
pub(super) struct Cost {
    pub(super) operation: Operation,
    pub(super) count: usize,
    pub(super) ns: f64,
    /// Cycles of the CPU's time-stamp counter; `None` if it has none.
    pub(super) cycles: Option<f64>,
    pub(super) drains: f64,
    pub(super) lines: f64,
    pub(super) bytes: f64,
}

/// Measures the file system of `folder` at the requested durability, then memory at each other durability.
pub(super) fn measure_all(
    context: &DemoContext,
    folder: &Path,
    durability: Option<Durability>,
    words: &WordList,
    rng: &mut fastrand::Rng,
) -> Result<Vec<Measurement>, Failure> {
    let _progress = Progress::spinner("measuring");
    let mut keys: Vec<&[u8]> = words.all().iter().map(Vec::as_slice).collect();
    rng.shuffle(&mut keys);
    let mut measured = vec![measure_medium(context, folder, durability, &keys)?];
    let in_memory = tempfile::Builder::new().prefix("lode-demo-").tempdir_in(TMPFS).ok();
    let place = in_memory.as_ref().map_or(folder, |in_memory| in_memory.path());
    for durability in [Durability::Line, Durability::Byte, Durability::None] {
        context.check_interrupt()?;
        if measured[0].durability != durability {
            measured.push(measure_medium(context, place, Some(durability), &keys)?);
        }
    }
    Ok(measured)
}

/// Measures every operation on one medium.
fn measure_medium(
    context: &DemoContext,
    folder: &Path,
    durability: Option<Durability>,
    keys: &[&[u8]],
) -> Result<Measurement, Failure> {
    let path = folder.join("measured.pool");
    let failure = of_pool(&path);
    let options = CreateOptions { durability, ..CreateOptions::new(POOL_SIZE, Store::layout_name()) };
    let reopening = OpenOptions { durability, ..OpenOptions::new(Access::ReadWrite) };
    let store = Store::create(&path, &options).map_err(&failure)?;
    let report = store.pool().report().clone();
    let empty = free_bytes(&store).map_err(&failure)?;
    let mut costs = Vec::new();
    let mut inserted = keys;
    let (mut bytes_per_key, mut reopen, mut store) = (0.0, Duration::ZERO, Some(store));
    for operation in Operation::ALL {
        context.check_interrupt()?;
        let open = store.take().expect("put back at the end of the loop");
        let cost = time_operation(operation, &open, inserted).map_err(&failure)?;
        if operation == Operation::Insert {
            inserted = &keys[..cost.count];
            bytes_per_key = (empty - free_bytes(&open).map_err(&failure)?) as f64 / cost.count as f64;
            // Dropped without `close`, as after a kill.
            drop(open);
            let begin = Instant::now();
            store = Some(Store::open(&path, &reopening).map_err(&failure)?);
            reopen = begin.elapsed();
        } else {
            store = Some(open);
        }
        costs.push(cost);
    }
    drop(store);
    remove(&path)?;
    Store::create(&path, &options).and_then(Store::close).map_err(&failure)?;
    let counted = Store::open_through(&path, &reopening, Counted::new).map_err(&failure)?;
    for cost in &mut costs {
        count_costs(cost, &counted, &inserted[..inserted.len().min(COUNTED_MAX)]).map_err(&failure)?;
    }
    drop(counted);
    remove(&path)?;
    let stand_in = matches!(report.how, DurabilityEvidence::Forced { .. });
    let medium = match &report.how {
        DurabilityEvidence::Forced { found } => found.how.to_string(),
        how => how.to_string(),
    };
    Ok(Measurement {
        durability: report.durability,
        medium,
        stand_in,
        keys: inserted.len(),
        bytes_per_key,
        reopen,
        costs,
    })
}

fn remove(path: &PathBuf) -> Result<(), Failure> {
    fs::remove_file(path).map_err(|error| Failure::io("removing a measured pool", path, &error))
}

fn free_bytes(store: &Store) -> Result<u64, KvError> {
    Ok(store.heap().stats()?.free_bytes())
}

/// Runs one operation on a key.
fn run_operation<M: Medium>(operation: Operation, tree: &Tree<'_, M>, key: &[u8]) -> Result<(), KvError> {
    let value = key.len() as u64;
    match operation {
        Operation::Insert => drop(tree.insert(key, &value.to_le_bytes())?),
        Operation::Reinsert => drop(tree.insert(key, &(value + 1).to_le_bytes())?),
        Operation::Lookup => {
            let reader = tree.reader();
            black_box(reader.get(key)?.map(|value| value.len()));
        }
        Operation::Delete => drop(tree.delete(key)?),
    }
    Ok(())
}

/// Measures an operation with one thread, until all keys are done or time is up. The result is the median of laps,
/// which other load on the machine affects little.
fn time_operation(
    operation: Operation,
    store: &Store<Arc<Mapping>>,
    keys: &[&[u8]],
) -> Result<Cost, KvError> {
    let tree = store.tree()?;
    let (mut times, mut ticks) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    let mut count = 0;
    for lap in keys.chunks(LAP_LEN) {
        let (start, first) = (Instant::now(), cycles());
        for key in lap {
            run_operation(operation, &tree, key)?;
        }
        let (took, last) = (start.elapsed(), cycles());
        times.push(took.as_nanos() as f64 / lap.len() as f64);
        ticks.extend(first.zip(last).map(|(first, last)| last.wrapping_sub(first) as f64 / lap.len() as f64));
        count += lap.len();
        if begin.elapsed() > TIME_MAX {
            break;
        }
    }
    let ns = median(&mut times).unwrap_or(0.0);
    let cycles = median(&mut ticks);
    Ok(Cost { operation, count, ns, cycles, drains: 0.0, lines: 0.0, bytes: 0.0 })
}

/// Returns the median.
fn median(numbers: &mut [f64]) -> Option<f64> {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

/// Counts the drains, lines and bytes of an operation, checkpoints included. Stores their means in `cost`.
fn count_costs(cost: &mut Cost, store: &Store<Counted<Arc<Mapping>>>, keys: &[&[u8]]) -> Result<(), KvError> {
    let tree = store.tree()?;
    let medium = store.heap().medium();
    let before = medium.counts();
    for key in keys {
        run_operation(cost.operation, &tree, key)?;
    }
    let Counts { drains, lines_flushed, lines_copied, bytes_stored, bytes_copied, .. } =
        medium.counts() - before;
    let each = |total: u64| total as f64 / keys.len() as f64;
    cost.drains = each(drains);
    cost.lines = each(lines_flushed + lines_copied);
    cost.bytes = each(bytes_stored + bytes_copied);
    Ok(())
}
