//! art-insert, art-reinsert, art-lookup and lookup-checked on random keys and on words, and art-insert on a file.
//!
//! On tmpfs each round begins with an empty tree in a fresh pool, because what counts is the whole way from empty to
//! full; the works of a round share its tree. Pools are as the sides make them by default: the first touch of a
//! page is part of an insert, and a side that needs fewer pages is faster for it. `--touched` takes that out. On a
//! file each side keeps one tree over all rounds. Each work has its own order of the keys, drawn anew each round, the
//! same for all sides.

use crate::clock::{Lap, lap};
use crate::contender::{Tree, Who};
use crate::keys::{KeySet, Keys};
use crate::ours;
use crate::peers::{Blart, Congee, PmemobjTree};
use crate::plan::{Durability, Size};
use crate::rounds::{Contest, same_digest, take_turns};
use anyhow::{Result, bail, ensure};
use fastrand::Rng;
use std::fs;
use std::path::Path;

/// The works on random keys of 8 bytes.
pub(super) fn random(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Contest>> {
    let works = ["art-insert-random", "art-reinsert-random", "art-lookup-random", "lookup-checked-random"];
    let keys = Keys::new(KeySet::Random, size.keys, &mut Rng::with_seed(seed))?;
    line(&works, &keys, &[Who::Libpmemobj, Who::Blart, Who::Congee], size, seed, folder)
}

/// The works on English words.
pub(super) fn words(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Contest>> {
    let works = ["art-insert-words", "art-reinsert-words", "art-lookup-words", "lookup-checked-words"];
    let keys = Keys::new(KeySet::Words, size.words, &mut Rng::with_seed(seed))?;
    line(&works, &keys, &[Who::Libpmemobj, Who::Blart], size, seed, folder)
}

/// A side's empty tree.
fn grow(who: Who, keys: usize, durability: Durability, touched: bool, folder: &Path) -> Result<Box<dyn Tree>> {
    Ok(match who {
        Who::Ours => ours::tree(&folder.join("ours-tree"), durability, keys, touched)?,
        Who::Libpmemobj => Box::new(PmemobjTree::create(&folder.join("pmemobj-tree"), keys, touched)?),
        Who::Blart => Box::new(Blart::default()),
        Who::Congee => Box::new(Congee::default()),
        other => bail!("{other} is not a tree"),
    })
}

/// Removes the pools of a turn.
fn clear(folder: &Path) -> Result<()> {
    for file in fs::read_dir(folder)? {
        fs::remove_file(file?.path())?;
    }
    Ok(())
}

/// The keys of a round, in the order of each of its works.
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
    works: &[&str],
    keys: &Keys,
    peers: &[Who],
    size: &Size,
    seed: u64,
    folder: &Path,
) -> Result<Vec<Contest>> {
    let mut sides: Vec<(Who, u64)> = [Who::Ours].iter().chain(peers).map(|who| (*who, 0)).collect();
    let mut orders = Round::new(keys, 0, seed)?;
    let mut contests = take_turns(works, size.rounds, false, &mut sides, |round, who, digest| {
        if orders.number != round {
            orders = Round::new(keys, round, seed)?;
        }
        let mut tree = grow(who, keys.len(), Durability::Line, size.touched, folder)?;
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
        clear(folder)?;
        Ok(vec![insert, reinsert, lookup, checked])
    })?;
    for contest in &mut contests {
        contest.digest = same_digest(&contest.work, &sides)?;
    }
    Ok(contests)
}

/// The insert on an ordinary file.
pub(super) fn file(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Contest>> {
    let folder = folder.join("trees");
    fs::create_dir(&folder)?;
    let (count, rounds) = (size.file_transactions, size.rounds);
    let mut rng = Rng::with_seed(seed);
    let batches: Vec<Keys> =
        (0..=rounds).map(|_| Keys::new(KeySet::Random, count, &mut rng)).collect::<Result<_>>()?;
    let mut sides: Vec<(Who, Box<dyn Tree>)> = Vec::new();
    for who in [Who::Ours, Who::Libpmemobj] {
        sides.push((who, grow(who, count * (rounds + 1), Durability::Commit, true, &folder)?));
    }
    let mut contests: Vec<Contest> =
        take_turns(&["file-art-insert"], rounds, true, &mut sides, |round, _, tree| {
            let (lap, done): (Lap, _) = lap(count as u64, || tree.insert(&batches[round]));
            done?;
            Ok(vec![lap])
        })?;
    let mut digests = Vec::new();
    for (who, tree) in &sides {
        let mut digest: u64 = 0;
        for keys in &batches {
            digest = digest.rotate_left(7) ^ tree.lookup(keys)?;
        }
        digests.push((*who, digest));
    }
    contests[0].digest = same_digest("file-art-insert", &digests)?;
    Ok(contests)
}
