//! What each operation asks of the medium: drains, lines, bytes. CONTRIBUTING.md, "Costs", says how to change it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_btt::{Btt, Plan};
use lode_nvdimm::BttVersion;
use lode_pmem::{Counts, Durability};
use lode_testing::cost::{self, Table};
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of the table's medium, that of the least arena.
const SIZE: u64 = 17 << 20;

fn measure_all(table: &mut Table, durability: Durability, lbasize: u32) {
    let medium = Arc::new(cost::medium(SIZE, durability, env!("CARGO_TARGET_TMPDIR")));
    let uuids = [Uuid::from_u128(1), Uuid::nil()];
    let plan = Plan::kernel(SIZE, lbasize, BttVersion::V1_1, uuids).unwrap();
    table.measure(&medium, &format!("format-{lbasize}"), || plan.format(&medium).unwrap());
    let (btt, _) =
        table.measure(&medium, &format!("open-{lbasize}"), || Btt::open(Arc::clone(&medium)).unwrap());
    let mut block = vec![7; lbasize as usize];
    let is_cached = btt.has_volatile_cache();
    let (_, counts) = table.measure(&medium, &format!("write-{lbasize}"), || btt.write(9, &block).unwrap());
    assert_eq!(counts.drains, if is_cached { 0 } else { 2 }, "the data, then the flog entry");
    table.measure(&medium, &format!("write-again-{lbasize}"), || btt.write(9, &block).unwrap());
    let batch: Vec<(u64, &[u8])> = (100..132).map(|lba| (lba, &block[..])).collect();
    let (_, counts) =
        table.measure(&medium, &format!("write-batch-32-{lbasize}"), || btt.write_batch(&batch).unwrap());
    assert_eq!(counts.drains, if is_cached { 0 } else { 2 }, "all data, then all flog entries");
    let (_, counts) =
        table.measure(&medium, &format!("in-place-32-{lbasize}"), || btt.write_in_place(&batch).unwrap());
    assert_eq!(counts.drains, if is_cached { 0 } else { 1 }, "all data, and nothing else");
    let (_, counts) = table.measure(&medium, &format!("read-{lbasize}"), || btt.read(9, &mut block).unwrap());
    assert_eq!(counts, Counts::default(), "a read asks for nothing");
    table.measure(&medium, &format!("zero-{lbasize}"), || btt.zero(9, 1).unwrap());
    let (_, counts) = table.measure(&medium, &format!("zero-32-{lbasize}"), || btt.zero(100, 32).unwrap());
    assert_eq!(counts.drains, if is_cached { 0 } else { 1 }, "all map entries");
    let (_, counts) =
        table.measure(&medium, &format!("zero-again-32-{lbasize}"), || btt.zero(100, 32).unwrap());
    assert_eq!(counts, Counts::default(), "all blocks are zeros already");
    table.measure(&medium, &format!("flush-{lbasize}"), || btt.flush().unwrap());
    let mixed: Vec<(u64, Option<&[u8]>)> =
        (200..232).map(|lba| (lba, (lba % 2 == 0).then_some(&block[..]))).collect();
    let (_, counts) =
        table.measure(&medium, &format!("mixed-32-{lbasize}"), || btt.change_batch(&mixed).unwrap());
    assert_eq!(counts.drains, if is_cached { 0 } else { 2 }, "data and zeros, then all flog entries");
    table.measure(&medium, &format!("flush-mixed-{lbasize}"), || btt.flush().unwrap());
    (0..32).for_each(|lba| btt.write(lba, &block).unwrap());
    let (_, counts) = table.measure(&medium, &format!("flush-32-{lbasize}"), || btt.flush().unwrap());
    assert_eq!(counts.drains, if is_cached { 2 } else { 0 }, "all data, then all flog entries");
    table.measure(&medium, &format!("flush-nothing-{lbasize}"), || btt.flush().unwrap());
}

#[test]
fn costs_match_golden_file() {
    let mut table = Table::empty();
    for durability in [Durability::Line, Durability::Byte, Durability::Commit] {
        for lbasize in [512, 4096] {
            measure_all(&mut table, durability, lbasize);
        }
    }
    table.compare(env!("CARGO_PKG_NAME"), include_str!("cost.golden"));
}
