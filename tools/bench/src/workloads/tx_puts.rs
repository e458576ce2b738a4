//! tx-puts-10k, tx-puts-100k and tx-puts-1m: many puts of new random keys in one transaction.
//!
//! A lap is one transaction on a store of a million keys on an ordinary file, which is a fresh copy in each round. Each
//! engine reads its whole store before the clock, so that all of it is in memory, and after it, for the digest.

use super::Findings;
use super::databases::Filled;
use crate::clock::lap;
use crate::engine::Engine;
use crate::figure::Figure;
use crate::pairs::Pairs;
use crate::plan::{Selection, Size};
use crate::rounds::{Comparison, Measured, common_digest, run_interleaved};
use crate::unit::Unit;
use anyhow::{Result, ensure};
use fastrand::Rng;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Bytes of a key, and of a value.
const KEY_LEN: usize = 16;
const VALUE_LEN: usize = 100;
/// Bytes of a pool for each pair that it holds, and for each put of a transaction: its pair, and its part of the record.
const PAIR_ROOM: u64 = 256;
const PUT_ROOM: u64 = 1024;

/// The row with which the others are compared.
const SMALLEST: &str = "tx-puts-10k";
/// The rows, their puts, and the figure that compares the time of a put.
const ROWS: [(&str, usize, Option<&str>); 3] = [
    (SMALLEST, 10_000, None),
    ("tx-puts-100k", 100_000, Some("tx-puts-100k-growth")),
    ("tx-puts-1m", 1_000_000, Some("tx-puts-1m-growth")),
];

const ENGINES: [Engine; 5] = [Engine::Ours, Engine::OursLine, Engine::Redb, Engine::Sqlite, Engine::Lmdb];

/// Runs the selected rows, and the smallest one, with which the others are compared.
pub(super) fn run(selection: &Selection, size: &Size, seed: u64, folder: &Path) -> Result<Findings> {
    let rows = ROWS.iter().filter(|(row, _, growth)| {
        *row == SMALLEST || selection.has(row) || growth.is_some_and(|growth| selection.has(growth))
    });
    let mut findings = Findings::default();
    for (row, puts, growth) in rows {
        let folder = folder.join(row);
        fs::create_dir(&folder)?;
        let comparison = one_row(row, puts / size.put_divisor, size, seed, &folder)?;
        fs::remove_dir_all(&folder)?;
        findings.comparisons.push(comparison);
        let time_of = |name: &str| {
            let row = findings.comparisons.iter().find(|comparison| comparison.workload == name);
            Some(row?.ours()?.median(Unit::Micros))
        };
        if let (Some(growth), Some(here), Some(smallest)) = (growth, time_of(row), time_of(SMALLEST)) {
            findings.figures.push(Figure { workload: (*growth).to_owned(), value: here / smallest });
        }
    }
    findings.notes.push(format!(
        "tx-puts: an ordinary file, durability commit; lodestone-line is the same file at durability line, where no \
         sync takes place; {} keys in each store before a transaction; medians of {} rounds",
        size.store_keys, size.long_rounds
    ));
    Ok(findings)
}

fn one_row(row: &str, puts: usize, size: &Size, seed: u64, folder: &Path) -> Result<Comparison> {
    let mut rng = Rng::with_seed(seed);
    let stored = Pairs::random(size.store_keys, KEY_LEN, VALUE_LEN, &mut rng);
    let room = stored.len() as u64 * PAIR_ROOM + puts as u64 * PUT_ROOM;
    let mut engines = Vec::new();
    for engine in ENGINES {
        engines.push((engine, Filled::create(engine, folder, &stored, room)?));
    }
    let mut digests: HashMap<usize, Vec<(Engine, u64)>> = HashMap::new();
    let mut comparisons =
        run_interleaved(&[row], size.long_rounds, false, &mut engines, |round, engine, filled| {
            let mut rng = Rng::with_seed(seed ^ (round as u64) << 32);
            let pairs = Pairs::random(puts, KEY_LEN, VALUE_LEN, &mut rng);
            let store = filled.open_copy(size.overdue)?;
            store.scan()?;
            let (lap, done) = lap(puts as u64, || store.put_all(&pairs));
            let measured = Measured::of(lap, done)?;
            if let Measured::Absent(_) = measured {
                return Ok(vec![measured]);
            }
            ensure!(store.count()? == (stored.len() + puts) as u64, "puts are lost");
            digests.entry(round).or_default().push((engine, store.scan()?));
            store.close()?;
            filled.remove_copy()?;
            Ok(vec![measured])
        })?;
    let mut comparison = comparisons.remove(0);
    for round in 1..=size.long_rounds {
        let digest = digests.get(&round).map_or(Ok(0), |digests| common_digest(row, digests))?;
        comparison.digest = comparison.digest.rotate_left(7) ^ digest;
    }
    Ok(comparison)
}
