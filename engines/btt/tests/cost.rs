//! What each operation asks of the medium: drains, lines, bytes. CONTRIBUTING.md, "Costs", says how to change it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_btt::{Btt, Plan};
use lode_nvdimm::BttVersion;
use lode_pmem::{Counted, Counts, Durability, Mapping};
use lode_testing::cost::{self, Table};
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of the table's medium, that of the least arena.
const SIZE: u64 = 17 << 20;

/// A table under measurement.
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

fn measure_all(table: &mut Table, durability: Durability, lbasize: u32) {
    let medium = Arc::new(cost::medium(SIZE, durability, env!("CARGO_TARGET_TMPDIR")));
    let mut bench = Bench { table, durability, medium: Arc::clone(&medium) };
    let uuids = [Uuid::from_u128(1), Uuid::nil()];
    let plan = Plan::kernel(SIZE, lbasize, BttVersion::V1_1, uuids).unwrap();
    bench.measure(&format!("format-{lbasize}"), || plan.format(&medium).unwrap());
    let (btt, _) = bench.measure(&format!("open-{lbasize}"), || Btt::open(Arc::clone(&medium)).unwrap());
    let mut block = vec![7; lbasize as usize];
    let is_cached = btt.has_volatile_cache();
    let (_, counts) = bench.measure(&format!("write-{lbasize}"), || btt.write(9, &block).unwrap());
    assert_eq!(counts.drains, if is_cached { 0 } else { 2 }, "the data, then the flog entry");
    bench.measure(&format!("write-again-{lbasize}"), || btt.write(9, &block).unwrap());
    let (_, counts) = bench.measure(&format!("read-{lbasize}"), || btt.read(9, &mut block).unwrap());
    assert_eq!(counts, Counts::default(), "a read asks for nothing");
    bench.measure(&format!("zero-{lbasize}"), || btt.zero(9).unwrap());
    bench.measure(&format!("flush-{lbasize}"), || btt.flush().unwrap());
    (0..32).for_each(|lba| btt.write(lba, &block).unwrap());
    let (_, counts) = bench.measure(&format!("flush-32-{lbasize}"), || btt.flush().unwrap());
    assert_eq!(counts.drains, if is_cached { 2 } else { 0 }, "all data, then all flog entries");
    bench.measure(&format!("flush-nothing-{lbasize}"), || btt.flush().unwrap());
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
