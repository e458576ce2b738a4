//! What each operation asks of the medium: drains, lines, bytes. CONTRIBUTING.md, "Costs", says how to change it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_blocks::Blocks;
use lode_layout::Geometry;
use lode_pmem::{Counted, Counts, Durability, Mapping};
use lode_testing::cost::{self, Table};
use std::sync::Arc;

/// Bytes of the pool.
const SIZE: u64 = 4 << 20;
const UUID: [u8; 16] = [3; 16];

/// Blocks under measurement.
struct Bench<'a> {
    table: &'a mut Table,
    durability: Durability,
    medium: Arc<Counted<Mapping>>,
}

impl Bench<'_> {
    /// Runs `operation` and adds its line.
    fn measure<R>(&mut self, name: &str, operation: impl FnOnce() -> R) -> (R, Counts) {
        let before = self.medium.counts();
        let result = operation();
        let counts = self.medium.counts() - before;
        self.table.add(name, self.durability, counts);
        (result, counts)
    }
}

fn measure_all(table: &mut Table, durability: Durability, size: u32) {
    let medium = Arc::new(cost::medium(SIZE, durability, env!("CARGO_TARGET_TMPDIR")));
    let mut bench = Bench { table, durability, medium: Arc::clone(&medium) };
    let geometry = Geometry::plan(SIZE).unwrap();
    let name = |operation: &str| format!("{operation}-{size}");
    bench.measure(&name("format"), || Blocks::format(&medium, &geometry, &UUID, size, [1; 2]).unwrap());
    let open = || Blocks::open(Arc::clone(&medium), &geometry, UUID, [2; 2]).unwrap().0;
    let (blocks, _) = bench.measure(&name("open"), open);
    let mut block = vec![7; size as usize];
    let is_cached = blocks.has_volatile_cache();
    let drains_of_write = if is_cached { 0 } else { 1 };
    let (_, counts) = bench.measure(&name("write"), || blocks.write(9, &block).unwrap());
    assert_eq!(counts.drains, drains_of_write, "the content and the record");
    let (_, counts) = bench.measure(&name("write-again"), || blocks.write(9, &block).unwrap());
    assert_eq!(counts.drains, drains_of_write, "the content and the record");
    let (_, counts) = bench.measure(&name("read"), || blocks.read(9, &mut block).unwrap());
    assert_eq!(counts, Counts::default(), "a read asks for nothing");
    bench.measure(&name("read-unchecked"), || blocks.read_unchecked(9, &mut block).unwrap());
    bench.measure(&name("flush"), || blocks.flush().unwrap());
    let batch: Vec<(u64, &[u8])> = (0..8).map(|lba| (lba, block.as_slice())).collect();
    let (_, counts) = bench.measure(&name("write-8"), || blocks.write_batch(&batch).unwrap());
    assert_eq!(counts.drains, drains_of_write, "all contents and one record");
    let (_, counts) = bench.measure(&name("flush-8"), || blocks.flush().unwrap());
    assert_eq!(counts.drains, if is_cached { 1 } else { 0 }, "all contents and one record");
    bench.measure(&name("flush-nothing"), || blocks.flush().unwrap());
    bench.measure(&name("zero"), || blocks.zero(9, 1).unwrap());
    bench.measure(&name("zero-zeros"), || blocks.zero(9, 1).unwrap());
    bench.measure(&name("close"), || blocks.close().unwrap());
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
