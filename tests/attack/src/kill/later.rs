//! Transactions that return before they are durable, under SIGKILL. A kill leaves all of them up to some moment:
//! each adds an entry to one list, by the number after the last one that it sees.

use super::{ComparePool, Journal, Kills, THREADS, on_all_threads, transaction_rng};
use crate::Finding;
use crate::api::{self, Outcome, ensure, expect_ok};
use anyhow::Result;
use lodestone::{Options, Snapshot, Store, TreeDef};
use std::path::Path;
use std::time::Duration;

/// The number of the last transaction of each thread.
const NUMBERS: TreeDef<'_, u64, u64> = TreeDef::new("numbers");
/// The transactions of all threads in their order: number times [`THREADS`], plus thread. Only the last ones are kept.
const LIST: TreeDef<'_, u64, u64> = TreeDef::new("list");
/// Number of entries of the list.
const LIST_MAX: u64 = 2_000;

fn options(kills: &Kills) -> Options {
    let mut options = Store::options();
    // Short, so that some kills come between a sync and an answer.
    options.durability(kills.durability).later_interval(Duration::from_millis(5)).later_bytes(64 << 10);
    options
}

/// Makes the store. Returns the function that compares it after each kill.
pub(super) fn create(kills: &Kills, pool: &Path) -> Result<Box<ComparePool>> {
    let store = options(kills).create_new(pool)?;
    store.write(|tx| {
        tx.tree(LIST)?;
        tx.tree(NUMBERS).map(drop)
    })?;
    store.close()?;
    let kills = *kills;
    Ok(Box::new(move |pool, journal| {
        api::check(pool)?;
        let store = expect_ok("open", options(&kills).open_read_only(pool))?;
        compare(&expect_ok("snapshot", store.snapshot())?, journal)
    }))
}

/// Compares the list with the numbers of the threads, from the newest entry to the oldest.
fn compare(snapshot: &Snapshot, journal: &Journal) -> Outcome {
    let numbers = expect_ok("numbers", snapshot.tree(NUMBERS))?;
    let mut left = Vec::new();
    for thread in 0..THREADS {
        let acknowledged = journal.acknowledged(thread).map_err(|error| Finding::new("journal", error))?;
        let number = expect_ok("get", numbers.get(thread))?.unwrap_or(0);
        ensure(
            number >= acknowledged,
            "acknowledged-lost",
            format_args!("thread {thread}: {acknowledged} are durable, and the pool is at {number}"),
        )?;
        left.push(number);
    }
    let list = expect_ok("list", snapshot.tree(LIST))?;
    let mut next = left.iter().sum::<u64>();
    for entry in list.iter().rev() {
        let (at, entry) = expect_ok("entry", entry)?;
        let (thread, number) = (entry % THREADS, entry / THREADS);
        let expected = left.get_mut(thread as usize).filter(|left| **left == number);
        ensure(
            at == next && expected.is_some(),
            "no-prefix",
            format_args!("entry {at} is number {number} of thread {thread}, and {next} was expected"),
        )?;
        left[thread as usize] -= 1;
        next -= 1;
    }
    let sum = left.iter().sum::<u64>();
    ensure(
        sum == next && (next == 0 || expect_ok("count", list.count())? == LIST_MAX),
        "no-prefix",
        "entries are missing",
    )
}

pub(super) fn child(kills: &Kills, pool: &Path, journal: &Journal) -> Result<()> {
    let store = options(kills).open_existing(pool)?;
    on_all_threads(|thread| work(&store, kills, journal, thread))
}

fn work(store: &Store, kills: &Kills, journal: &Journal, thread: u64) -> Result<()> {
    let begun = store.get(NUMBERS, thread)?.unwrap_or(0);
    // Later ones than the last that was acknowledged may have been durable.
    journal.acknowledge(thread, begun)?;
    for number in begun + 1.. {
        let mut rng = transaction_rng(kills.seed, thread, number);
        let transaction = |tx: &lodestone::Transaction<'_>| {
            let list = tx.tree(LIST)?;
            let at = list.last()?.map_or(0, |(at, _)| at) + 1;
            list.put(at, number * THREADS + thread)?;
            if at > LIST_MAX {
                list.delete(at - LIST_MAX)?;
            }
            tx.tree(NUMBERS)?.put(thread, number)
        };
        match rng.u8(..10) {
            0 => {
                store.write(transaction)?;
                journal.acknowledge(thread, number)?;
            }
            1 => {
                let (_, ticket) = store.write_later(transaction)?;
                ticket.wait()?;
                journal.acknowledge(thread, number)?;
            }
            _ => {
                let (_, ticket) = store.write_later(transaction)?;
                if ticket.is_durable() {
                    journal.acknowledge(thread, number)?;
                }
            }
        }
    }
    Ok(())
}
