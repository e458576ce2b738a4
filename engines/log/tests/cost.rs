//! What each operation asks of the medium: drains, lines, bytes. CONTRIBUTING.md, "Costs", says how to change it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_layout::{Geometry, PmdkHeader, PmdkKind};
use lode_log::AppendLog;
use lode_log::pmdk::PmemLog;
use lode_pmem::{Counts, Durability};
use lode_testing::cost::{self, Table};
use std::ops::ControlFlow;
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of the pool.
const SIZE: u64 = 4 << 20;
const UUID: [u8; 16] = [3; 16];

fn measure_all(table: &mut Table, durability: Durability) {
    let medium = Arc::new(cost::medium(SIZE, durability, env!("CARGO_TARGET_TMPDIR")));
    let geometry = Geometry::plan(SIZE).unwrap();
    let format = || AppendLog::format(&medium, &geometry, &UUID, [4; 2], [1; 2]).unwrap();
    table.measure(&medium, "format", format);
    let open = || AppendLog::open(Arc::clone(&medium), &geometry, UUID, [2; 2]).unwrap().0;
    let (log, _) = table.measure(&medium, "open", open);
    let drains = if log.has_volatile_cache() { 0 } else { 1 };
    let content = [7; 4096];
    for len in [0, 64, 4096] {
        let append = || log.append(&content[..len]).unwrap();
        let (_, counts) = table.measure(&medium, &format!("append-{len}"), append);
        assert_eq!(counts.drains, drains, "the record alone");
    }
    let parts = [&content[..8]; 64];
    let (position, counts) = table.measure(&medium, "appendv-64x8", || log.appendv(&parts).unwrap());
    assert_eq!(counts.drains, drains, "one record");
    let records = [&content[..64]; 64];
    let (_, counts) = table.measure(&medium, "append-batch-64x64", || log.append_batch(&records).unwrap());
    assert_eq!(counts.drains, drains, "all records");
    let (_, counts) = table.measure(&medium, "persist", || log.persist().unwrap());
    assert_eq!(counts.drains, 1 - drains, "all appends, or none if they are durable");
    table.measure(&medium, "persist-nothing", || log.persist().unwrap());
    let mut into = Vec::new();
    let (_, counts) = table.measure(&medium, "read", || log.read(position, &mut into).unwrap());
    assert_eq!(counts, Counts::default(), "a read asks for nothing");
    let (_, counts) = table.measure(&medium, "walk", || {
        let mut walk = log.walk(log.head());
        while walk.next(&mut into).unwrap().is_some() {}
    });
    assert_eq!(counts, Counts::default(), "a walk asks for nothing");
    let (_, counts) = table.measure(&medium, "truncate", || log.truncate(position).unwrap());
    assert_eq!(counts.drains, 1, "the state");
    table.measure(&medium, "rewind", || log.rewind().unwrap());
    table.measure(&medium, "close", || log.close().unwrap());
}

fn measure_pmdk(table: &mut Table, durability: Durability) {
    let medium = Arc::new(cost::medium(SIZE, durability, env!("CARGO_TARGET_TMPDIR")));
    let header = PmdkHeader::new(PmdkKind::Log, Uuid::from_u128(1), Uuid::from_u128(2), 3);
    table.measure(&medium, "pmdk-format", || PmemLog::format(&medium, &header).unwrap());
    let (log, _) = table.measure(&medium, "pmdk-open", || PmemLog::open(Arc::clone(&medium)).unwrap());
    let drains = if log.has_volatile_cache() { 0 } else { 2 };
    let content = [7; 4096];
    for len in [5, 64, 4096] {
        let append = || log.append(&content[..len]).unwrap();
        let (_, counts) = table.measure(&medium, &format!("pmdk-append-{len}"), append);
        assert_eq!(counts.drains, drains, "the bytes, then the word");
    }
    let parts = [&content[..64]; 64];
    let (_, counts) = table.measure(&medium, "pmdk-appendv-64x64", || log.appendv(&parts).unwrap());
    assert_eq!(counts.drains, drains, "all parts, then the word");
    let (_, counts) = table.measure(&medium, "pmdk-persist", || log.persist().unwrap());
    assert_eq!(counts.drains, 2 - drains, "all appends, then the word, or none if they are durable");
    let walk = || log.walk(100, |_| ControlFlow::Continue(())).unwrap();
    let (_, counts) = table.measure(&medium, "pmdk-walk", walk);
    assert_eq!(counts, Counts::default(), "a walk asks for nothing");
    let (_, counts) = table.measure(&medium, "pmdk-rewind", || log.rewind().unwrap());
    assert_eq!(counts.drains, 1, "the word");
}

#[test]
fn costs_match_golden_file() {
    let mut table = Table::empty();
    for durability in [Durability::Line, Durability::Byte, Durability::Commit] {
        measure_all(&mut table, durability);
        measure_pmdk(&mut table, durability);
    }
    table.compare(env!("CARGO_PKG_NAME"), include_str!("cost.golden"));
}
