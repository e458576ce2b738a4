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
    Cover::recover(Arc::clone(medium), AREA, UUID, [log_epoch; 2], TRANSACTIONS).unwrap().0
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
        let out_of_range = CoverError::OutOfRange { at: at.get(), len, end: SIZE };
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
