//! art-insert, art-reinsert, art-lookup and lookup-checked on random keys and on words, and art-insert on a file.
//!
//! On tmpfs each round begins with an empty tree in a fresh pool, because what counts is the whole way from empty to
//! full; the workloads of a round share its tree. Pools are as the engines make them by default: the first touch of a
//! page is part of an insert, and an engine that needs fewer pages is faster for it. `--touched` takes that out. On a
//! file each engine keeps one tree over all rounds. Each workload has its own order of the keys, drawn anew each round,
//! the same for all engines.

use crate::clock::{Lap, lap};
use crate::engine::{Engine, Tree};
use crate::group::Durability;
use crate::keys::{KeySet, Keys};
use crate::ours;
use crate::peers::{Blart, Congee, FlooredBlart, PmemobjTree};
use crate::plan::Size;
use crate::rounds::{Comparison, common_digest, run_interleaved};
use anyhow::{Result, bail, ensure};
use fastrand::Rng;
use std::fs;
use std::path::Path;

/// The workloads on random keys of 8 bytes.
pub(super) fn random(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let workloads =
        ["art-insert-random", "art-reinsert-random", "art-lookup-random", "lookup-checked-random"];
    let keys = Keys::new(KeySet::Random, size.keys, &mut Rng::with_seed(seed))?;
    let peers = [Engine::Libpmemobj, Engine::Blart, Engine::Congee, Engine::Floor];
    line(&workloads, &keys, &peers, size, seed, folder)
}

/// The workloads on English words.
pub(super) fn words(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let workloads = ["art-insert-words", "art-reinsert-words", "art-lookup-words", "lookup-checked-words"];
    let keys = Keys::new(KeySet::Words, size.words, &mut Rng::with_seed(seed))?;
    line(&workloads, &keys, &[Engine::Libpmemobj, Engine::Blart, Engine::Floor], size, seed, folder)
}

/// An engine's empty tree.
fn create_tree(
    engine: Engine,
    keys: usize,
    durability: Durability,
    touched: bool,
    folder: &Path,
) -> Result<Box<dyn Tree>> {
    Ok(match engine {
        Engine::Ours => ours::tree(&folder.join("ours-tree"), durability, keys, touched)?,
        Engine::Libpmemobj => Box::new(PmemobjTree::create(&folder.join("pmemobj-tree"), keys, touched)?),
        Engine::Blart => Box::new(Blart::default()),
        Engine::Congee => Box::new(Congee::default()),
        Engine::Floor => Box::new(FlooredBlart::create(&folder.join("floor-tree"), keys, touched)?),
        other => bail!("{other} is not a tree"),
    })
}

/// Removes the pools of a turn.
pub(super) fn remove_files(folder: &Path) -> Result<()> {
    for file in fs::read_dir(folder)? {
        fs::remove_file(file?.path())?;
    }
    Ok(())
}

/// The keys of a round, in the order of each of its workloads.
struct Round {
    number: usize,
    insert: Keys,
    reinsert: Keys,
    lookup: Keys,
}

impl Round {
    fn new(keys: &Keys, number: usize, seed: u64) -> Result<Round> {
        let mut rng = Rng::with_seed(seed ^ (number as u64) << 32);
        let insert = keys.reordered(0, &mut rng)?;
        let reinsert = keys.reordered(keys.len() as u64, &mut rng)?;
        let lookup = keys.reordered(0, &mut rng)?;
        Ok(Round { number, insert, reinsert, lookup })
    }
}

fn line(
    workloads: &[&str],
    keys: &Keys,
    peers: &[Engine],
    size: &Size,
    seed: u64,
    folder: &Path,
) -> Result<Vec<Comparison>> {
    let mut engines: Vec<(Engine, u64)> =
        [Engine::Ours].iter().chain(peers).map(|engine| (*engine, 0)).collect();
    let mut orders = Round::new(keys, 0, seed)?;
    let mut comparisons =
        run_interleaved(workloads, size.rounds, false, &mut engines, |round, engine, digest| {
            if orders.number != round {
                orders = Round::new(keys, round, seed)?;
            }
            let mut tree = create_tree(engine, keys.len(), Durability::Line, size.touched, folder)?;
            let ops = keys.len() as u64;
            let (insert, done) = lap(ops, || tree.insert(&orders.insert));
            done?;
            let (reinsert, done) = lap(ops, || tree.insert(&orders.reinsert));
            done?;
            let (lookup, found) = lap(ops, || tree.lookup(&orders.lookup));
            let found = found?;
            *digest = digest.rotate_left(7) ^ found;
            let (checked, found_again) = lap(ops, || tree.lookup_checked(&orders.lookup));
            ensure!(found_again? == found, "a checked lookup finds something else");
            drop(tree);
            remove_files(folder)?;
            Ok(vec![insert, reinsert, lookup, checked])
        })?;
    for comparison in &mut comparisons {
        comparison.digest = common_digest(&comparison.workload, &engines)?;
    }
    Ok(comparisons)
}

/// The insert on an ordinary file.
pub(super) fn file(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let folder = folder.join("trees");
    fs::create_dir(&folder)?;
    let (count, rounds) = (size.file_transactions, size.rounds);
    let mut rng = Rng::with_seed(seed);
    let batches: Vec<Keys> =
        (0..=rounds).map(|_| Keys::new(KeySet::Random, count, &mut rng)).collect::<Result<_>>()?;
    let mut engines: Vec<(Engine, Box<dyn Tree>)> = Vec::new();
    for engine in [Engine::Ours, Engine::Libpmemobj] {
        engines.push((engine, create_tree(engine, count * (rounds + 1), Durability::Commit, true, &folder)?));
    }
    let mut comparisons: Vec<Comparison> =
        run_interleaved(&["file-art-insert"], rounds, true, &mut engines, |round, _, tree| {
            let (lap, done): (Lap, _) = lap(count as u64, || tree.insert(&batches[round]));
            done?;
            Ok(vec![lap])
        })?;
    let mut digests = Vec::new();
    for (engine, tree) in &engines {
        let mut digest: u64 = 0;
        for keys in &batches {
            digest = digest.rotate_left(7) ^ tree.lookup(keys)?;
        }
        digests.push((*engine, digest));
    }
    comparisons[0].digest = common_digest("file-art-insert", &digests)?;
    Ok(comparisons)
}
