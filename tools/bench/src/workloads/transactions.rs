//! tx-1, tx-4, tx-16, tx-alloc, alloc-free; some of them on a file; all against the floor, on two sets of lines.
//!
//! Each engine keeps one pool over all rounds: what counts is the steady state, log rings that wrap and blocks that
//! are used again. Places and slots are drawn from the seed and the round, so all engines change the same words in
//! the same order and must end with the same contents.

use crate::clock::{Lap, lap};
use crate::engine::{AREA_WORDS, BLOCK_WORDS, Engine, NEAR_WORDS, SLOTS, Transactions};
use crate::group::Durability;
use crate::ours;
use crate::peers::{Floor, PmemobjArea};
use crate::plan::{Selection, Size};
use crate::rounds::{Comparison, common_digest, run_interleaved};
use anyhow::Result;
use fastrand::Rng;
use std::path::Path;

type TransactionEngine = Box<dyn Transactions>;

#[derive(Clone, Copy)]
enum Kind {
    /// Change so many ranges among the first so many words.
    Change(usize, u32),
    /// Replace the block in one of the first so many slots.
    Replace(u32),
    AllocFree,
    /// The same, linked in one of the first so many words.
    AllocFreeAt(u32),
}

/// Slots in use on a file, where filling all of them would take minutes.
const FILE_SLOTS: u32 = 64;

/// The workloads on tmpfs.
pub(super) fn line(selection: &Selection, size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let workloads = [
        ("tx-1", Kind::Change(1, NEAR_WORDS)),
        ("tx-4", Kind::Change(4, NEAR_WORDS)),
        ("tx-16", Kind::Change(16, NEAR_WORDS)),
        ("tx-16-wide", Kind::Change(16, AREA_WORDS)),
        ("tx-alloc", Kind::Replace(SLOTS)),
        ("alloc-free", Kind::AllocFree),
    ];
    let workloads: Vec<_> = workloads.into_iter().filter(|(row, _)| selection.has(row)).collect();
    run(&workloads, size.rounds, size.transactions, seed, engines(folder, Durability::Line)?)
}

/// Words of an area, and the first ones on which stores in place are measured: 64 KiB and 16 MiB, then 128 MiB.
const COVERED_SETS: [(u32, &[(&str, u32)]); 2] =
    [(AREA_WORDS, &[("64k", 8 << 10), ("16m", AREA_WORDS)]), (16 << 20, &[("128m", 16 << 20)])];

/// Transactions over stores in place, each on two sets of lines.
pub(super) fn covered(
    selection: &Selection,
    size: &Size,
    seed: u64,
    folder: &Path,
) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    for (area, sets) in COVERED_SETS {
        let all = sets.iter().flat_map(|(set, words)| {
            [1, 4, 16].map(|ranges| (format!("cover-tx-{ranges}-{set}"), Kind::Change(ranges, *words)))
        });
        let named: Vec<(String, Kind)> = all.filter(|(row, _)| selection.has(row)).collect();
        if named.is_empty() {
            continue;
        }
        let file = |engine: &str| folder.join(format!("{engine}-covered-{area}"));
        let engines: Vec<(Engine, TransactionEngine)> = vec![
            (Engine::Ours, ours::stores_in_place(&file("ours"), Durability::Line, area)?),
            (Engine::Libpmemobj, Box::new(PmemobjArea::with_words(&file("pmemobj"), area)?)),
        ];
        let workloads: Vec<(&str, Kind)> = named.iter().map(|(row, kind)| (row.as_str(), *kind)).collect();
        comparisons.append(&mut run(&workloads, size.rounds, size.transactions, seed, engines)?);
    }
    Ok(comparisons)
}

/// The workloads on an ordinary file.
pub(super) fn file(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let workloads =
        [("file-tx-1", Kind::Change(1, NEAR_WORDS)), ("file-tx-alloc", Kind::Replace(FILE_SLOTS))];
    run(&workloads, size.rounds, size.file_transactions, seed, engines(folder, Durability::Commit)?)
}

/// Words of the two sets of lines on which the floors are measured, 64 KiB and 4 MiB, and as many bytes of blocks.
const SETS: [(&str, u32); 2] = [("64k", 8 << 10), ("4m", 512 << 10)];

/// The workloads against the floor, each on two sets of lines.
pub(super) fn floors(
    selection: &Selection,
    size: &Size,
    seed: u64,
    folder: &Path,
) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    for (set, words) in SETS {
        let engines: Vec<(Engine, TransactionEngine)> = vec![
            (Engine::Ours, ours::transactions(&folder.join(format!("ours-{set}")), Durability::Line)?),
            (Engine::Floor, Box::new(Floor::create(&folder.join(format!("floor-{set}")))?)),
        ];
        let workloads = [
            ("tx-1", Kind::Change(1, words)),
            ("tx-4", Kind::Change(4, words)),
            ("tx-16", Kind::Change(16, words)),
            ("tx-alloc", Kind::Replace(words / BLOCK_WORDS)),
            ("alloc-free", Kind::AllocFreeAt(words)),
        ];
        let named = workloads.map(|(workload, kind)| (format!("{workload}-{set}"), kind));
        let workloads: Vec<(&str, Kind)> = named
            .iter()
            .filter(|(row, _)| selection.has(row))
            .map(|(row, kind)| (row.as_str(), *kind))
            .collect();
        comparisons.append(&mut run(&workloads, size.rounds, size.transactions, seed, engines)?);
    }
    Ok(comparisons)
}

fn engines(folder: &Path, durability: Durability) -> Result<Vec<(Engine, TransactionEngine)>> {
    Ok(vec![
        (Engine::Ours, ours::transactions(&folder.join("ours-area"), durability)?),
        (Engine::Libpmemobj, Box::new(PmemobjArea::create(&folder.join("pmemobj-area"))?)),
    ])
}

fn run(
    workloads: &[(&str, Kind)],
    rounds: usize,
    count: usize,
    seed: u64,
    mut engines: Vec<(Engine, TransactionEngine)>,
) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    for (workload, kind) in workloads {
        if let Kind::Replace(below) = kind {
            // From the first lap on, each transaction finds an old block to free.
            let slots: Vec<u32> = (0..*below).collect();
            engines.iter_mut().try_for_each(|(_, side)| side.replace(&slots))?;
        }
        let turn = |round: usize, _, side: &mut TransactionEngine| {
            one_lap(*kind, count, seed ^ round as u64, side.as_mut())
        };
        let mut comparison = run_interleaved(&[workload], rounds, true, &mut engines, turn)?;
        let digests = engines.iter().map(|(engine, side)| Ok((*engine, digest(side.as_ref())?)));
        comparison[0].digest = common_digest(workload, &digests.collect::<Result<Vec<_>>>()?)?;
        comparisons.append(&mut comparison);
    }
    Ok(comparisons)
}

fn one_lap(kind: Kind, count: usize, seed: u64, side: &mut dyn Transactions) -> Result<Vec<Lap>> {
    let mut rng = Rng::with_seed(seed);
    let mut draw = |how_many: usize, below: u32| (0..how_many).map(|_| rng.u32(..below)).collect::<Vec<_>>();
    let (lap, done) = match kind {
        Kind::Change(ranges, below) => {
            let places = draw(count * ranges, below);
            lap(count as u64, || side.change(&places, ranges))
        }
        Kind::Replace(below) => {
            let slots = draw(count, below);
            lap(count as u64, || side.replace(&slots))
        }
        Kind::AllocFreeAt(below) => {
            let places = draw(count, below);
            lap(count as u64, || side.alloc_free_at(&places))
        }
        Kind::AllocFree => lap(count as u64, || side.alloc_free(count)),
    };
    done?;
    Ok(vec![lap])
}

fn digest(side: &dyn Transactions) -> Result<u64> {
    let contents = side.contents()?;
    Ok(contents.iter().fold(0, |digest: u64, word| {
        // The multiplication makes each word count by its place; folding alone would let words cancel out.
        (digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }))
}
