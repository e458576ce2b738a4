//! Keys and values under SIGKILL.

use super::{ComparePool, Journal, Kills, THREADS, check_number, on_all_threads, transaction_rng};
use crate::Finding;
use crate::api::{DELIBERATE_ERROR, Outcome, check, ensure, expect_ok};
use crate::panic_hook::{DeliberatePanic, catch_deliberate};
use anyhow::Result;
use lode_heap::{Access, CreateOptions, OpenOptions};
use lode_index::IndexError;
use lode_kv::Store;
use std::collections::BTreeMap;
use std::path::Path;

const SIZE: u64 = 8 << 20;
/// Number of keys of a thread, few enough for its share of the pool never to be full.
const KEYS: u16 = 40;

/// Model of the keys of a thread after `number` transactions.
#[derive(Default)]
struct KnownPairs {
    number: u64,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A change of one key: its new value, or `None` to delete it.
type Change = (Vec<u8>, Option<Vec<u8>>);

fn number_key(thread: u64) -> Vec<u8> {
    format!("{thread}#number").into_bytes()
}

/// Returns the changes of the transaction `number` of `thread`.
fn changes(seed: u64, thread: u64, number: u64) -> Vec<Change> {
    let mut rng = transaction_rng(seed, thread, number);
    let count = rng.usize(1..6);
    (0..count)
        .map(|_| {
            let key = format!("{thread}/{}", rng.u16(..KEYS)).into_bytes();
            let len = if rng.u8(..30) == 0 { rng.usize(..15_000) } else { rng.usize(..300) };
            let value = (rng.u8(..4) != 0).then(|| crate::api::content(&mut rng, len));
            (key, value)
        })
        .collect()
}

/// Makes the pool. Returns the function that compares it after each kill.
pub(super) fn create(kills: &Kills, pool: &Path) -> Result<Box<ComparePool>> {
    let options = CreateOptions {
        durability: Some(kills.durability),
        ..CreateOptions::new(SIZE, Store::layout_name())
    };
    Store::create(pool, &options)?.close()?;
    let kills = *kills;
    let mut threads: Vec<KnownPairs> = (0..THREADS).map(|_| KnownPairs::default()).collect();
    Ok(Box::new(move |pool, journal| {
        check(pool)?;
        let store = expect_ok("open", Store::open(pool, &OpenOptions::new(Access::ReadOnly)))?;
        for (thread, known) in (0..THREADS).zip(&mut threads) {
            compare(&store, &kills, journal, thread, known)?;
        }
        Ok(())
    }))
}

fn compare(store: &Store, kills: &Kills, journal: &Journal, thread: u64, known: &mut KnownPairs) -> Outcome {
    let number = number_of(store, thread)?;
    check_number(journal, thread, number)?;
    while known.number < number {
        known.number += 1;
        for (key, value) in changes(kills.seed, thread, known.number) {
            match value {
                Some(value) => known.pairs.insert(key, value),
                None => known.pairs.remove(&key),
            };
        }
    }
    let reader = expect_ok("tree", store.tree())?.reader();
    let mut want = known.pairs.iter();
    for entry in reader.prefix(format!("{thread}/").as_bytes()) {
        let entry = expect_ok("scan", entry)?;
        let value = entry.value.into_vec();
        let same = want.next().is_some_and(|(key, known)| entry.key == *key && value == *known);
        ensure(same, "torn", format_args!("thread {thread} at {number}: {:?} is another", entry.key))?;
    }
    ensure(want.next().is_none(), "torn", format_args!("thread {thread} at {number} misses keys"))
}

fn number_of(store: &Store, thread: u64) -> Result<u64, Finding> {
    let value = expect_ok("get", store.get(&number_key(thread)))?;
    Ok(value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes))
}

pub(super) fn child(kills: &Kills, pool: &Path, journal: &Journal) -> Result<()> {
    let options = OpenOptions { durability: Some(kills.durability), ..OpenOptions::new(Access::ReadWrite) };
    let store = Store::open(pool, &options)?;
    on_all_threads(|thread| work(&store, kills, journal, thread))
}

fn work(store: &Store, kills: &Kills, journal: &Journal, thread: u64) -> Result<()> {
    let begun = number_of(store, thread).map_err(|finding| anyhow::anyhow!("{finding}"))?;
    let tree = store.tree()?;
    // A kill may fall between the commit and the journal. The next child acknowledges such a transaction.
    journal.acknowledge(thread, begun)?;
    for number in begun + 1.. {
        let changes = changes(kills.seed, thread, number);
        let attempt = |ends: u64| {
            store.heap().run(|tx| {
                for (key, value) in &changes {
                    match value {
                        Some(value) => tree.insert_in(tx, key, value)?,
                        None => tree.delete_in(tx, key)?,
                    };
                }
                match ends {
                    1 => Err(IndexError::Heap(DELIBERATE_ERROR)),
                    2 => std::panic::resume_unwind(Box::new(DeliberatePanic)),
                    _ => tree.insert_in(tx, &number_key(thread), &number.to_le_bytes()),
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
