//! What each operation asks of the medium: drains, lines, bytes. CONTRIBUTING.md, "Costs", says how to change it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_layout::{CoverEntry, Entry, PoolOffset, Record};
use lode_pmem::{Counts, Durability, Medium};
use lode_redo::cover::{Changes, Cover, Mode};
use lode_redo::{Log, LogArea};
use lode_testing::cost::{self, Table};
use std::sync::Arc;

/// Bytes of the pool.
const SIZE: u64 = 4 << 20;
const UUID: [u8; 16] = [3; 16];
const AREA: LogArea = LogArea { start: PoolOffset::new(0x4000), len: 1 << 20 };

fn measure_all(table: &mut Table, durability: Durability) {
    let medium = Arc::new(cost::medium(SIZE, durability, env!("CARGO_TARGET_TMPDIR")));
    Log::format(&medium, AREA, &UUID, [1; 2]).unwrap();
    let base = AREA.start.plus(AREA.len);
    let open = || Cover::recover(Arc::clone(&medium), AREA, base, UUID, [2; 2], 8).unwrap().0;
    let (cover, _) = table.measure(&medium, "cover-open", open);
    let at = |index: u64| base.plus(index * 8192);
    for ranges in [1, 4, 16] {
        for state in ["free", "covered"] {
            let transact = || {
                let mut transaction = cover.begin().unwrap();
                for index in 0..ranges {
                    transaction.add_range(at(ranges + index), 8).unwrap();
                    medium.store8(at(ranges + index), 7);
                }
                transaction.commit(Changes::default()).unwrap();
            };
            let (_, counts) = table.measure(&medium, &format!("cover-tx-{ranges}-{state}"), transact);
            let images = if state == "free" { ranges } else { 0 };
            assert_eq!(counts.drains, images + 1, "an image for each free range, and the record");
        }
    }
    let (_, counts) = table.measure(&medium, "cover-tx-empty", || {
        cover.begin().unwrap().commit(Changes::default()).unwrap();
    });
    assert_eq!(counts, Counts::default(), "nothing to make durable");
    let (_, counts) = table.measure(&medium, "cover-tx-abort", || {
        let mut transaction = cover.begin().unwrap();
        transaction.add_range(at(1), 8).unwrap();
        transaction.abort().unwrap();
    });
    assert_eq!(counts.drains, 0, "the log has the old bytes");
    let object = at(100);
    let mut bits = Record::new();
    bits.push(Entry::Cover(CoverEntry::SetBits { at: at(200), mask: 1 }));
    let (_, counts) = table.measure(&medium, "cover-tx-object-64", || {
        medium.store(object, &[1; 64]);
        let changes =
            Changes { objects: &[(object, 64)], words: &[(at(1), 9)], entries: bits.body(), continued: &[] };
        cover.begin().unwrap().commit(changes).unwrap();
    });
    assert_eq!(counts.drains, 1, "the record has the object");
    table.measure(&medium, "cover-tx-object-8k", || {
        medium.store(at(110), &[1; 8192]);
        let changes = Changes { objects: &[(at(110), 8192)], ..Changes::default() };
        cover.begin().unwrap().commit(changes).unwrap();
    });
    table.measure(&medium, "cover-persist-free", || cover.persist(at(300), 8).unwrap());
    table.measure(&medium, "cover-persist-covered", || cover.persist(at(1), 8).unwrap());
    table.measure(&medium, "cover-checkpoint", || cover.checkpoint().unwrap());
    let mut open = cover.begin().unwrap();
    open.add_range(at(1), 8).unwrap();
    table.measure(&medium, "cover-checkpoint-open", || cover.checkpoint().unwrap());
    drop(open);
    table.measure(&medium, "cover-close", || cover.close().unwrap());
}

/// The calls of careful mode, which leave nothing that recovery would rewrite.
fn measure_careful(table: &mut Table, durability: Durability) {
    let medium = Arc::new(cost::medium(SIZE, durability, env!("CARGO_TARGET_TMPDIR")));
    Log::format(&medium, AREA, &UUID, [1; 2]).unwrap();
    let base = AREA.start.plus(AREA.len);
    let (mut cover, _) = Cover::recover(Arc::clone(&medium), AREA, base, UUID, [2; 2], 8).unwrap();
    cover.set_mode(Mode::Careful);
    let at = |index: u64| base.plus(index * 8192);
    for ranges in [1, 4, 16] {
        let transact = || {
            let mut transaction = cover.begin().unwrap();
            for index in 0..ranges {
                transaction.add_range(at(index), 8).unwrap();
                medium.store8(at(index), 7);
            }
            transaction.commit(Changes::default()).unwrap();
        };
        let (_, counts) = table.measure(&medium, &format!("careful-tx-{ranges}"), transact);
        assert_eq!(counts.drains, ranges + 2, "one for each range, one for the stores, and the record");
    }
    let (_, counts) = table.measure(&medium, "careful-tx-abort", || {
        let mut transaction = cover.begin().unwrap();
        transaction.add_range(at(1), 8).unwrap();
        transaction.abort().unwrap();
    });
    assert_eq!(counts.drains, 3, "the old bytes in the log, at home, and the record");
    let object = at(100);
    table.measure(&medium, "careful-tx-object-64", || {
        medium.store(object, &[1; 64]);
        let changes = Changes { objects: &[(object, 64)], words: &[(at(1), 9)], ..Changes::default() };
        cover.begin().unwrap().commit(changes).unwrap();
    });
    let (_, counts) = table.measure(&medium, "careful-persist", || cover.persist(at(1), 8).unwrap());
    assert_eq!(counts.drains, 1);
    let mut open = cover.begin().unwrap();
    open.add_range(at(1), 8).unwrap();
    table.measure(&medium, "careful-checkpoint-open", || cover.checkpoint().unwrap());
    drop(open);
    table.measure(&medium, "careful-close", || cover.close().unwrap());
}

#[test]
fn costs_match_golden_file() {
    let mut table = Table::empty();
    for durability in [Durability::Line, Durability::Byte, Durability::Commit] {
        measure_all(&mut table, durability);
        measure_careful(&mut table, durability);
    }
    table.compare(env!("CARGO_PKG_NAME"), include_str!("cost.golden"));
}
