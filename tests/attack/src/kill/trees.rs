//! Named trees of a store under SIGKILL: made, filled, dropped, renamed, and taken back to a savepoint.

use super::{ComparePool, Journal, Kills, THREADS, check_number, on_all_threads, transaction_rng};
use crate::api::{self, Outcome, content, ensure, expect_ok};
use crate::panic_hook::{DeliberatePanic, catch_deliberate};
use anyhow::Result;
use fastrand::Rng;
use lodestone::{Error, Options, Snapshot, Store, Transaction, TreeDef};
use std::collections::BTreeMap;
use std::path::Path;

/// Names of trees of a thread.
const TREES: u64 = 4;
/// Number of keys in each tree, few enough for the file to stay small.
const KEYS: u64 = 30;
/// The number of the last transaction of each thread.
const NUMBERS: TreeDef<'_, u64, u64> = TreeDef::new("numbers");

/// Keys and values of a tree.
type Content = BTreeMap<u64, Vec<u8>>;
/// The trees of a thread.
type Trees = BTreeMap<String, Content>;

/// Model of the trees of a thread after `number` transactions.
#[derive(Default)]
struct KnownTrees {
    number: u64,
    trees: Trees,
}

/// A part of a transaction.
enum Step {
    /// Gives a key a value. Makes the tree if there is none.
    Put(String, u64, Vec<u8>),
    /// Deletes a key. Makes the tree if there is none.
    Delete(String, u64),
    /// Drops the tree, if there is one.
    Drop(String),
    /// Drops the second tree, and gives the first its name, if there is a first one.
    Rename(String, String),
    /// Takes these steps, and goes back to the savepoint before them.
    TakeBack(Vec<Step>),
}

fn name(thread: u64, rng: &mut Rng) -> String {
    format!("{thread}/{}", rng.u64(..TREES))
}

/// Returns some steps of a transaction of `thread`.
fn steps(thread: u64, rng: &mut Rng, may_nest: bool) -> Vec<Step> {
    let step = |rng: &mut Rng| match rng.u8(..20) {
        0 => Step::Drop(name(thread, rng)),
        1 => Step::Rename(name(thread, rng), name(thread, rng)),
        2 if may_nest => Step::TakeBack(steps(thread, rng, false)),
        3..7 => Step::Delete(name(thread, rng), rng.u64(..KEYS)),
        _ => {
            let len = if rng.u8(..30) == 0 { rng.usize(..8_000) } else { rng.usize(..200) };
            Step::Put(name(thread, rng), rng.u64(..KEYS), content(rng, len))
        }
    };
    (0..rng.usize(1..8)).map(|_| step(rng)).collect()
}

/// Takes a step in the model.
fn step_in_model(trees: &mut Trees, step: Step) {
    match step {
        Step::Put(name, key, value) => drop(trees.entry(name).or_default().insert(key, value)),
        Step::Delete(name, key) => drop(trees.entry(name).or_default().remove(&key)),
        Step::Drop(name) => drop(trees.remove(&name)),
        Step::Rename(old, new) => {
            if let Some(tree) = trees.remove(&old) {
                trees.insert(new, tree);
            }
        }
        Step::TakeBack(_) => {}
    }
}

/// Takes a step in a transaction.
fn step_in(tx: &Transaction<'_>, step: &Step) -> lodestone::Result<()> {
    let tree = |name| tx.tree(TreeDef::<u64, Vec<u8>>::new(name));
    match step {
        Step::Put(name, key, value) => tree(name)?.put(key, value).map(drop),
        Step::Delete(name, key) => tree(name)?.delete(key).map(drop),
        Step::Drop(name) => tx.drop_tree(name).map(drop),
        Step::Rename(old, new) if old == new || !tx.tree_names()?.contains(old) => Ok(()),
        Step::Rename(old, new) => {
            tx.drop_tree(new)?;
            tx.rename_tree(old, new)
        }
        Step::TakeBack(steps) => {
            let savepoint = tx.savepoint();
            steps.iter().try_for_each(|step| step_in(tx, step))?;
            tx.roll_back_to(savepoint)
        }
    }
}

fn options(kills: &Kills) -> Options {
    Store::options().durability(kills.durability).clone()
}

/// Makes the store. Returns the function that compares it after each kill.
pub(super) fn create(kills: &Kills, pool: &Path) -> Result<Box<ComparePool>> {
    let store = options(kills).create_new(pool)?;
    store.write(|tx| tx.tree(NUMBERS).map(drop))?;
    store.close()?;
    let kills = *kills;
    let mut threads: Vec<KnownTrees> = (0..THREADS).map(|_| KnownTrees::default()).collect();
    Ok(Box::new(move |pool, journal| {
        api::check(pool)?;
        let store = expect_ok("open", options(&kills).open_read_only(pool))?;
        let snapshot = expect_ok("snapshot", store.snapshot())?;
        for (thread, known) in (0..THREADS).zip(&mut threads) {
            compare(&snapshot, &kills, journal, thread, known)?;
        }
        Ok(())
    }))
}

fn compare(
    snapshot: &Snapshot,
    kills: &Kills,
    journal: &Journal,
    thread: u64,
    known: &mut KnownTrees,
) -> Outcome {
    let number = expect_ok("get", snapshot.tree(NUMBERS).and_then(|tree| tree.get(thread)))?.unwrap_or(0);
    check_number(journal, thread, number)?;
    while known.number < number {
        known.number += 1;
        let mut rng = transaction_rng(kills.seed, thread, known.number);
        for step in steps(thread, &mut rng, true) {
            step_in_model(&mut known.trees, step);
        }
    }
    let found = expect_ok("scan", trees_of(snapshot, thread))?;
    ensure(found == known.trees, "torn", format_args!("thread {thread} at {number} has other trees"))
}

/// Returns the trees of a thread in the store.
fn trees_of(snapshot: &Snapshot, thread: u64) -> lodestone::Result<Trees> {
    let mut trees = Trees::new();
    for name in snapshot.tree_names()? {
        if name.starts_with(&format!("{thread}/")) {
            let tree = snapshot.tree(TreeDef::<u64, Vec<u8>>::new(&name))?;
            let content: Content = tree.iter().collect::<lodestone::Result<_>>()?;
            if tree.count()? != content.len() as u64 {
                return Err(Error::other(format!("the count of {name} is wrong")));
            }
            trees.insert(name, content);
        }
    }
    Ok(trees)
}

pub(super) fn child(kills: &Kills, pool: &Path, journal: &Journal) -> Result<()> {
    let store = options(kills).open_existing(pool)?;
    on_all_threads(|thread| work(&store, kills, journal, thread))
}

fn work(store: &Store, kills: &Kills, journal: &Journal, thread: u64) -> Result<()> {
    let begun = store.get(NUMBERS, thread)?.unwrap_or(0);
    // A kill may fall between the commit and the journal. The next child acknowledges such a transaction.
    journal.acknowledge(thread, begun)?;
    for number in begun + 1.. {
        let steps = steps(thread, &mut transaction_rng(kills.seed, thread, number), true);
        let attempt = |ends: u64| {
            store.write(|tx| {
                steps.iter().try_for_each(|step| step_in(tx, step))?;
                match ends {
                    1 => Err(Error::other("deliberate")),
                    2 => std::panic::resume_unwind(Box::new(DeliberatePanic)),
                    _ => tx.tree(NUMBERS)?.put(thread, number).map(drop),
                }
            })
        };
        // A transaction that fails on purpose leaves nothing.
        if number.is_multiple_of(7) {
            catch_deliberate(|| attempt(number / 7 % 2 + 1));
        }
        attempt(0)?;
        journal.acknowledge(thread, number)?;
    }
    Ok(())
}
