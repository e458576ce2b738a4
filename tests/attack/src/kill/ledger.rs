//! Objects under SIGKILL. Each thread keeps some in slots of a table, and replaces one in each transaction.

use super::{ComparePool, Journal, Kills, THREADS, check_number, on_all_threads, transaction_rng};
use crate::Finding;
use crate::api::{PoolHeap, check, content, ensure, expect_ok, publish_with};
use anyhow::Result;
use lode_heap::{Access, CreateOptions, HeapError, LayoutName, OpenOptions, Pool, Tx};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::Mapping;
use std::path::Path;
use std::sync::Arc;

const SIZE: u64 = 4 << 20;
/// Number of objects of a thread.
const SLOTS: u64 = 16;
/// Words of a thread's part of the table: its number, then the offset of each object.
const PART: u64 = 1 + SLOTS;
/// Bytes of the part, which has lines of its own.
const PART_LEN: u64 = (PART * WORD).next_multiple_of(64);
const OBJECT_TYPE: u64 = 2;

fn part_at(root: PoolOffset, thread: u64) -> PoolOffset {
    root.plus(thread * PART_LEN)
}

fn slot_at(part: PoolOffset, number: u64) -> PoolOffset {
    part.plus((1 + number % SLOTS) * WORD)
}

/// Returns the object that the transaction `number` makes.
fn object(seed: u64, thread: u64, number: u64) -> Vec<u8> {
    let mut rng = transaction_rng(seed, thread, number);
    let len = match rng.u8(..8) {
        0 => 40_000,
        1 => 4000,
        2 => 64,
        _ => rng.usize(1..3000),
    };
    content(&mut rng, len)
}

/// Makes the pool. Returns the function that compares it after each kill.
pub(super) fn create(kills: &Kills, pool: &Path) -> Result<Box<ComparePool>> {
    let options = CreateOptions {
        durability: Some(kills.durability),
        ..CreateOptions::new(SIZE, LayoutName::new("ledger")?)
    };
    let made = Pool::create(pool, &options)?;
    made.heap().run(|tx| {
        let root = tx.alloc_zeroed(THREADS * PART_LEN, 64, 1)?;
        tx.set_root(root);
        Ok::<_, HeapError>(())
    })?;
    made.close()?;
    let kills = *kills;
    Ok(Box::new(move |pool, journal| {
        check(pool)?;
        let pool = expect_ok("open", Pool::open(pool, &OpenOptions::new(Access::ReadOnly)))?;
        let heap = pool.heap();
        let root = expect_ok("root", heap.root())?;
        let mut live = 1;
        for thread in 0..THREADS {
            live += compare(heap, &kills, journal, part_at(root, thread), thread)?;
        }
        let count = heap.objects().count() as u64;
        ensure(count == live, "besides", format_args!("{count} objects, and {live} are in slots"))
    }))
}

/// Compares the objects of a thread, and returns their number.
fn compare(
    heap: &PoolHeap,
    kills: &Kills,
    journal: &Journal,
    part: PoolOffset,
    thread: u64,
) -> Result<u64, Finding> {
    let number = expect_ok("load", heap.memory().reading(|memory| memory.load8(part)))?;
    check_number(journal, thread, number)?;
    let first = number.saturating_sub(SLOTS) + 1;
    for last in first..=number {
        let at = expect_ok("load", heap.memory().reading(|memory| memory.load8(slot_at(part, last))))?;
        let at = PoolOffset::new(at);
        let want = object(kills.seed, thread, last);
        let there = expect_ok("object", heap.object(at))?;
        let fits = there.type_number == OBJECT_TYPE && there.size >= want.len() as u64;
        let same = fits && expect_ok("load", heap.memory().reading(|memory| memory.equals(at, &want)))?;
        ensure(
            same,
            "torn",
            format_args!("thread {thread} at {number}: the object {last} at {at} is another"),
        )?;
    }
    Ok(number + 1 - first)
}

pub(super) fn child(kills: &Kills, pool: &Path, journal: &Journal) -> Result<()> {
    let options = OpenOptions { durability: Some(kills.durability), ..OpenOptions::new(Access::ReadWrite) };
    let pool = Pool::open(pool, &options)?;
    let (heap, root) = (pool.heap(), pool.heap().root()?);
    on_all_threads(|thread| work(heap, kills, journal, part_at(root, thread), thread))
}

fn work(heap: &PoolHeap, kills: &Kills, journal: &Journal, part: PoolOffset, thread: u64) -> Result<()> {
    let begun = heap.memory().reading(|memory| memory.load8(part))?;
    // A kill may fall between the commit and the journal. The next child acknowledges such a transaction.
    journal.acknowledge(thread, begun)?;
    for number in begun + 1.. {
        let slot = slot_at(part, number);
        let content = object(kills.seed, thread, number);
        let replace = |tx: &Tx<'_, Arc<Mapping>>, at: PoolOffset| {
            let old = PoolOffset::new(tx.load8(slot));
            if !old.is_null() {
                tx.free(old)?;
            }
            tx.store8(slot, at.get());
            tx.store8(part, number);
            Ok(())
        };
        if number.is_multiple_of(3) {
            heap.run(|tx| {
                let at = tx.alloc(content.len() as u64, 16, OBJECT_TYPE)?;
                tx.store(at, &content);
                replace(tx, at)
            })?;
        } else {
            let reservation = heap.reserve(content.len() as u64, 16, OBJECT_TYPE)?;
            reservation.store(0, &content)?;
            publish_with(heap, reservation, replace)?;
        }
        journal.acknowledge(thread, number)?;
    }
    Ok(())
}
