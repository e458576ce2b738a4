//! Transactions over memory that programs store to in place, without a power cut.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_layout::PoolOffset;
use lode_pmem::{Durability, Medium};
use lode_redo::cover::{Changes, Cover, CoverError};
use lode_redo::{Log, LogArea};
use lode_testing::cost;
use std::sync::Arc;
use std::thread;

const SIZE: u64 = 2 << 20;
const UUID: [u8; 16] = [3; 16];
const AREA: LogArea = LogArea { start: PoolOffset::new(0x4000), len: 256 << 10 };
const BASE: PoolOffset = AREA.start.plus(AREA.len);
const TRANSACTIONS: usize = 4;

fn medium(durability: Durability) -> Arc<impl Medium> {
    let medium = Arc::new(cost::medium(SIZE, durability, env!("CARGO_TARGET_TMPDIR")));
    Log::format(&medium, AREA, &UUID, [1; 2]).unwrap();
    medium
}

fn open<M: Medium>(medium: &Arc<M>, log_epoch: u64) -> Cover<Arc<M>> {
    Cover::recover(Arc::clone(medium), AREA, BASE, UUID, [log_epoch; 2], TRANSACTIONS).unwrap().0
}

fn word<M: Medium>(medium: &Arc<M>, at: PoolOffset) -> u64 {
    medium.memory().reading(|memory| memory.load8(at)).unwrap()
}

#[test]
fn aborted_and_dropped_transactions_put_old_bytes_back() {
    for durability in [Durability::Line, Durability::Byte, Durability::Commit, Durability::None] {
        let medium = medium(durability);
        let cover = open(&medium, 2);
        medium.store8(BASE, 1);
        for is_dropped in [false, true] {
            let mut transaction = cover.begin().unwrap();
            transaction.add_range(BASE, 4).unwrap();
            medium.store8(BASE, 2);
            // The second call keeps what the first one has not, and no newer content of it.
            transaction.add_range(BASE, 8).unwrap();
            medium.store8(BASE, u64::MAX);
            match is_dropped {
                true => drop(transaction),
                false => transaction.abort().unwrap(),
            }
            assert_eq!(word(&medium, BASE), 1);
        }
        cover.close().unwrap();
    }
}

/// A process that ends leaves an open transaction, which the next open takes back, and one that had committed.
#[test]
fn next_open_takes_open_transactions_back() {
    let medium = medium(Durability::Line);
    let cover = open(&medium, 2);
    let (kept, taken_back) = (BASE, BASE.plus(8));
    let mut sleeping = cover.begin().unwrap();
    sleeping.add_range(taken_back, 8).unwrap();
    medium.store8(taken_back, 5);
    let mut transaction = cover.begin().unwrap();
    transaction.add_range(kept, 8).unwrap();
    medium.store8(kept, 6);
    cover.checkpoint().unwrap();
    transaction.commit(Changes::default()).unwrap();
    cover.checkpoint().unwrap();
    std::mem::forget(sleeping);
    drop(cover);
    let cover = open(&medium, 3);
    assert_eq!((word(&medium, kept), word(&medium, taken_back)), (6, 0));
    cover.close().unwrap();
}

/// The log has room for many more transactions than fit into it, although one stays open from first to last.
#[test]
fn sleeping_transaction_does_not_stop_the_log() {
    for durability in [Durability::Line, Durability::Commit] {
        let medium = medium(durability);
        let cover = open(&medium, 2);
        let mut sleeping = cover.begin().unwrap();
        sleeping.add_range(BASE, 64).unwrap();
        medium.store8(BASE, 1);
        let changing = |thread: u64| {
            for round in 1..=400 {
                let mut transaction = cover.begin().unwrap();
                let at = BASE.plus(4096 * (1 + thread * 100 + round % 100));
                transaction.add_range(at, 256).unwrap();
                medium.store8(at, round);
                transaction.commit(Changes::default()).unwrap();
                cover.persist(at.plus(256), 8).unwrap();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| changing(0));
            scope.spawn(|| changing(1));
        });
        sleeping.abort().unwrap();
        assert_eq!(word(&medium, BASE), 0);
        cover.close().unwrap();
    }
}

#[test]
fn too_large_transactions_are_refused_and_change_nothing() {
    let medium = medium(Durability::Line);
    let cover = open(&medium, 2);
    let mut transaction = cover.begin().unwrap();
    transaction.add_range(BASE, 8).unwrap();
    medium.store8(BASE, 1);
    let refused = transaction.add_range(BASE.plus(4096), 64 << 10).unwrap_err();
    assert!(matches!(refused, CoverError::TooLarge { .. }), "{refused}");
    let entries = vec![0; 64 << 10];
    let refused = transaction.commit(Changes { entries: &entries, ..Changes::default() }).unwrap_err();
    assert!(matches!(refused, CoverError::TooLarge { .. }), "{refused}");
    assert_eq!(word(&medium, BASE), 0, "a commit that is refused aborts");
    let mut held = Vec::new();
    let refused = loop {
        match cover.begin() {
            Ok(transaction) => held.push(transaction),
            Err(refused) => break refused,
        }
    };
    assert_eq!((held.len(), refused), (TRANSACTIONS, CoverError::TooManyOpen { open: TRANSACTIONS }));
}

#[test]
fn ranges_outside_of_the_memory_are_refused() {
    let medium = medium(Durability::Line);
    let cover = open(&medium, 2);
    for (at, len) in [(BASE.get() - 8, 8), (SIZE - 8, 16), (SIZE, 1), (BASE.get(), u64::MAX), (u64::MAX, 2)] {
        let at = PoolOffset::new(at);
        let (log_start, log_end) = (AREA.start.get(), BASE.get());
        let out_of_range =
            CoverError::OutOfRange { at: at.get(), len, start: log_end, end: SIZE, log_start, log_end };
        assert_eq!(cover.persist(at, len), Err(out_of_range));
        let mut transaction = cover.begin().unwrap();
        assert_eq!(transaction.add_range(at, len), Err(out_of_range));
        let changes = Changes { objects: &[(at, len)], ..Changes::default() };
        assert_eq!(transaction.commit(changes), Err(out_of_range));
    }
    let last = PoolOffset::new(SIZE - 8);
    cover.persist(last, 8).unwrap();
    cover.persist(last, 0).unwrap();
    let mut transaction = cover.begin().unwrap();
    transaction.add_range(last, 8).unwrap();
    transaction.add_range(last, 0).unwrap();
    transaction.commit(Changes::default()).unwrap();
}

/// A program keeps transactions where no borrow can be, and drops one without an end.
#[test]
fn open_transactions_borrow_nothing() {
    let medium = medium(Durability::Line);
    let cover = open(&medium, 2);
    let mut kept = Vec::new();
    for index in 0..3 {
        let mut transaction = cover.begin_open().unwrap();
        cover.add_range(&mut transaction, BASE.plus(index * 8), 8).unwrap();
        medium.store8(BASE.plus(index * 8), 7);
        kept.push(transaction);
    }
    cover.commit(kept.remove(0), Changes::default()).unwrap();
    cover.abort(kept.remove(0)).unwrap();
    assert_eq!([0, 8, 16].map(|at| word(&medium, BASE.plus(at))), [7, 0, 7]);
    drop(kept);
    cover.checkpoint().unwrap();
    assert_eq!(word(&medium, BASE.plus(16)), 7, "still open");
    cover.close().unwrap();
    assert_eq!(word(&medium, BASE.plus(16)), 0);
}

/// Memory lies before and after a log that is not behind the slots.
#[test]
fn log_may_lie_in_the_middle_of_the_memory() {
    let (start, area) = (PoolOffset::new(0x4000), LogArea { start: PoolOffset::new(0x20000), len: AREA.len });
    let log_end = area.start.plus(area.len);
    let places = [start, PoolOffset::new(area.start.get() - 8), log_end, PoolOffset::new(SIZE - 8)];
    let medium = medium(Durability::Line);
    Log::format(&medium, area, &UUID, [1; 2]).unwrap();
    let open = |log_epoch: u64| {
        Cover::recover(Arc::clone(&medium), area, start, UUID, [log_epoch; 2], TRANSACTIONS).unwrap().0
    };
    let cover = open(2);
    for (at, len) in [
        (start.get() - 8, 8),
        (area.start.get() - 8, 16),
        (area.start.get(), 8),
        (log_end.get() - 8, 8),
        (log_end.get() - 8, 16),
        (start.get(), SIZE - start.get()),
    ] {
        let mut transaction = cover.begin().unwrap();
        let refused = transaction.add_range(PoolOffset::new(at), len).unwrap_err();
        assert!(matches!(refused, CoverError::OutOfRange { .. }), "{refused}");
    }
    let mut transactions = [cover.begin_open().unwrap(), cover.begin_open().unwrap()];
    for (index, at) in places.into_iter().enumerate() {
        cover.persist(at, 8).unwrap();
        cover.add_range(&mut transactions[index % 2], at, 8).unwrap();
        medium.store8(at, 6);
    }
    let [committed, _left_open] = transactions;
    cover.commit(committed, Changes::default()).unwrap();
    drop(cover);
    let cover = open(3);
    assert_eq!(places.map(|at| word(&medium, at)), [6, 0, 6, 0]);
    cover.close().unwrap();
}

/// One thread has more than half of the log before a checkpoint, and recovery finds its records in all rings.
#[test]
fn one_thread_fills_many_rings() {
    let medium = Arc::new(cost::medium(SIZE, Durability::Line, env!("CARGO_TARGET_TMPDIR")));
    Log::format(&medium, AREA, &UUID, [1; 2]).unwrap();
    let cover = open(&medium, 2);
    let transactions = AREA.len / 2 / 64;
    let before = medium.counts().drains;
    for value in 1..=transactions {
        let mut transaction = cover.begin().unwrap();
        transaction.add_range(BASE, 8).unwrap();
        medium.store8(BASE, value);
        transaction.commit(Changes::default()).unwrap();
    }
    assert_eq!(medium.counts().drains - before, transactions + 1, "an image, and no checkpoint");
    drop(cover);
    let medium_of_next = Arc::clone(&medium);
    let recover = Cover::recover(medium_of_next, AREA, BASE, UUID, [3; 2], TRANSACTIONS);
    let (cover, recovery) = recover.unwrap();
    assert_eq!((recovery.replayed, word(&medium, BASE)), (transactions + 1, transactions));
    cover.close().unwrap();
}
