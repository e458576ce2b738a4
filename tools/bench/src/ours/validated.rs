//! validated-read and validated-read-tree: what the validation of a read takes, the commit's share included.

use crate::clock::lap;
use crate::plan::Size;
use crate::rounds::median;
use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use lode_heap::{Heap, PCell, Persist, TypedHeap};
use lode_index::{IndexError, Tree};
use lode_layout::{Geometry, WORD};
use lode_pmem::{Durability, Mapping};

/// Reads of a transaction.
const READS: usize = 64;
/// Cells among which a transaction reads. With the one that it writes they are 4,096, the most that an object holds.
const CELLS: usize = 4095;
/// Keys among which a transaction reads.
const KEYS: usize = 100_000;
/// Bytes of the pool, and parts of a lap's number of transactions that have so many reads.
const POOL_LEN: u64 = 64 << 20;
const PARTS: usize = 16;

lode_heap::brand!(
    /// The pool of the cells.
    Cells
);

#[derive(Persist)]
#[persist(brand = Cells)]
#[repr(C)]
struct Table {
    cells: [PCell<u64, Cells>; CELLS],
    sum: PCell<u64, Cells>,
}

fn heap() -> Result<Heap<Mapping>> {
    let medium = Mapping::options().durability(Durability::Line).map_anonymous(POOL_LEN)?;
    let geometry = Geometry::plan(POOL_LEN)?;
    Heap::format(&medium, &geometry, &[1; 16], [1, 1])?;
    Ok(Heap::open(medium, &geometry, [1; 16], [2, 2])?.0)
}

/// Returns the cycles that `run` takes longer for a read with validation than without. `run` makes a transaction for
/// each [`READS`] places below `below`, with or without validation, and returns a digest of what they read.
fn added(size: &Size, below: usize, run: impl Fn(&[usize], bool) -> Result<u64>) -> Result<f64> {
    let mut rng = Rng::with_seed(1);
    let mut added = Vec::new();
    // The first round finds the caches cold.
    for round in 0..=size.rounds {
        let count = (size.transactions / PARTS).max(1) * READS;
        let places: Vec<usize> = (0..count).map(|_| rng.usize(..below)).collect();
        let (validated, digest) = lap(count as u64, || run(&places, true));
        let (plain, wanted) = lap(count as u64, || run(&places, false));
        ensure!(digest? == wanted?, "the reads differ");
        if round > 0 {
            added.push((validated.cycles as f64 - plain.cycles as f64) / count as f64);
        }
    }
    Ok(median(&added))
}

/// Returns the cycles that validation adds to a read of a cell: 64 of 4,096 cells of 8 bytes, and one store.
pub(super) fn cell_read(size: &Size) -> Result<f64> {
    let heap: TypedHeap<Cells, Mapping> = TypedHeap::new(heap()?);
    let table: &Table = heap.root_or_init(|_| {
        Ok(Table { cells: std::array::from_fn(|cell| PCell::new(cell as u64)), sum: PCell::new(0) })
    })?;
    added(size, CELLS, |places, is_validated| {
        let mut digest = 0u64;
        for places in places.chunks_exact(READS) {
            let sum = heap.run(|tx| {
                let mut sum = 0u64;
                for place in places {
                    let cell = &table.cells[*place];
                    let value = if is_validated { cell.get(tx)? } else { cell.get_unvalidated(tx)? };
                    sum = sum.wrapping_add(value);
                }
                table.sum.set(tx, sum)?;
                Ok(sum)
            })?;
            digest = digest.wrapping_add(sum);
        }
        Ok(digest)
    })
}

/// Returns the cycles that validation adds to a read of a key: 64 of 100,000 keys of 8 bytes, and one store.
pub(super) fn key_read(size: &Size) -> Result<f64> {
    let heap = heap()?;
    let (root, target) =
        heap.run(|tx| Ok::<_, IndexError>((Tree::create(tx)?, tx.alloc_zeroed(WORD, WORD, 1)?)))?;
    let tree = Tree::open(&heap, root)?;
    let mut rng = Rng::with_seed(2);
    let keys: Vec<[u8; 8]> = (0..KEYS.min(size.keys)).map(|_| rng.u64(..).to_be_bytes()).collect();
    for key in &keys {
        tree.insert(key, key)?;
    }
    added(size, keys.len(), |places, is_validated| {
        let mut digest = 0u64;
        for places in places.chunks_exact(READS) {
            let sum = heap.run(|tx| {
                let mut sum = 0u64;
                for place in places {
                    let key = &keys[*place];
                    let value =
                        if is_validated { tree.get_in(tx, key)? } else { tree.get_unvalidated_in(tx, key)? };
                    let word = value.as_deref().and_then(|value| value.try_into().ok());
                    sum = sum.wrapping_add(u64::from_be_bytes(word.context("a key is missing")?));
                }
                tx.lock(target)?;
                tx.store8(target, sum);
                Ok::<_, anyhow::Error>(sum)
            })?;
            digest = digest.wrapping_add(sum);
        }
        Ok(digest)
    })
}
