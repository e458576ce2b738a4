//! What each operation asks of the medium: drains, lines, bytes. CONTRIBUTING.md, "Costs", says how to change it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_blocks::Blocks;
use lode_layout::Geometry;
use lode_pmem::{Counts, Durability};
use lode_testing::cost::{self, Table};
use std::sync::Arc;

/// Bytes of the pool.
const SIZE: u64 = 4 << 20;
const UUID: [u8; 16] = [3; 16];

fn measure_all(table: &mut Table, durability: Durability, size: u32) {
    let medium = Arc::new(cost::medium(SIZE, durability, env!("CARGO_TARGET_TMPDIR")));
    let geometry = Geometry::plan(SIZE).unwrap();
    let name = |operation: &str| format!("{operation}-{size}");
    table.measure(&medium, &name("format"), || {
        Blocks::format(&medium, &geometry, &UUID, size, [1; 2]).unwrap()
    });
    let open = || Blocks::open(Arc::clone(&medium), &geometry, UUID, [2; 2]).unwrap().0;
    let (blocks, _) = table.measure(&medium, &name("open"), open);
    let mut block = vec![7; size as usize];
    let is_cached = blocks.has_volatile_cache();
    let drains_of_write = if is_cached { 0 } else { 1 };
    // It begins the log epoch, too.
    table.measure(&medium, &name("first-write"), || blocks.write(8, &block).unwrap());
    let (_, counts) = table.measure(&medium, &name("write"), || blocks.write(9, &block).unwrap());
    assert_eq!(counts.drains, drains_of_write, "the content and the record");
    let (_, counts) = table.measure(&medium, &name("write-again"), || blocks.write(9, &block).unwrap());
    assert_eq!(counts.drains, drains_of_write, "the content and the record");
    let (_, counts) = table.measure(&medium, &name("read"), || blocks.read(9, &mut block).unwrap());
    assert_eq!(counts, Counts::default(), "a read asks for nothing");
    table.measure(&medium, &name("read-unchecked"), || blocks.read_unchecked(9, &mut block).unwrap());
    table.measure(&medium, &name("flush"), || blocks.flush().unwrap());
    let batch: Vec<(u64, &[u8])> = (0..8).map(|lba| (lba, block.as_slice())).collect();
    let (_, counts) = table.measure(&medium, &name("write-8"), || blocks.write_batch(&batch).unwrap());
    assert_eq!(counts.drains, drains_of_write, "all contents and one record");
    let (_, counts) = table.measure(&medium, &name("flush-8"), || blocks.flush().unwrap());
    assert_eq!(counts.drains, if is_cached { 1 } else { 0 }, "all contents and one record");
    let mixed: Vec<(u64, Option<&[u8]>)> =
        (0..8).map(|lba| (lba, (lba % 2 == 0).then_some(block.as_slice()))).collect();
    let (_, counts) = table.measure(&medium, &name("mixed-8"), || blocks.change_batch(&mixed).unwrap());
    assert_eq!(counts.drains, drains_of_write, "four contents, four zeros and one record");
    let (_, counts) = table.measure(&medium, &name("flush-mixed-8"), || blocks.flush().unwrap());
    assert_eq!(counts.drains, if is_cached { 1 } else { 0 }, "four contents, four zeros and one record");
    table.measure(&medium, &name("flush-nothing"), || blocks.flush().unwrap());
    table.measure(&medium, &name("zero"), || blocks.zero(9, 1).unwrap());
    table.measure(&medium, &name("zero-zeros"), || blocks.zero(9, 1).unwrap());
    table.measure(&medium, &name("close"), || blocks.close().unwrap());
}

#[test]
fn costs_match_golden_file() {
    let mut table = Table::empty();
    for durability in [Durability::Line, Durability::Byte, Durability::Commit] {
        for size in [512, 4096] {
            measure_all(&mut table, durability, size);
        }
    }
    table.compare(env!("CARGO_PKG_NAME"), include_str!("cost.golden"));
}
