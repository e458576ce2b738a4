//! What each operation asks of the medium: drains, lines, bytes. CONTRIBUTING.md, "Costs", says how to change it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::{Heap, HeapError, Tx};
use lode_layout::{Durability, Geometry, PoolOffset, WORD};
use lode_pmem::{Counted, Counts, Mapping};
use lode_testing::cost::{self, Table};
use std::sync::Arc;

type Medium = Arc<Counted<Mapping>>;
type PoolHeap = Heap<Medium>;

const UUID: [u8; 16] = [7; 16];
/// The log is a sixteenth: 512 KiB, in 16 rings of 32 KiB, or in one at durability commit.
const POOL_SIZE: u64 = 8 << 20;
const DURABILITIES: [Durability; 3] = [Durability::Line, Durability::Byte, Durability::Commit];

/// A pool under measurement.
struct Bench<'a> {
    table: &'a mut Table,
    durability: Durability,
    medium: Medium,
    geometry: Geometry,
}

impl Bench<'_> {
    /// Runs `operation` and adds its line.
    fn measure<R>(&mut self, name: &str, operation: impl FnOnce() -> R) -> (R, Counts) {
        self.table.measure(&self.medium, name, operation)
    }

    /// Runs a transaction and adds its line; it has exactly one drain between begin and return.
    fn one_drain<R>(
        &mut self,
        heap: &PoolHeap,
        name: &str,
        closure: impl Fn(&Tx<'_, Medium>) -> Result<R, HeapError>,
    ) -> R {
        let (result, counts) = self.measure(name, || heap.run(&closure).unwrap());
        assert_eq!(
            counts.drains, 1,
            "{name} on {}: exactly one drain between begin and return",
            self.durability
        );
        result
    }

    /// Opens the heap, and begins its log epoch, with a line for each.
    fn open(&mut self, name: &str, log_epoch: u64) -> PoolHeap {
        let (medium, geometry) = (Arc::clone(&self.medium), self.geometry);
        let (heap, _) = self.measure(name, || Heap::open(medium, &geometry, UUID, [log_epoch; 2]).unwrap().0);
        self.measure(&format!("{name}-epoch"), || heap.log().begin_epoch().unwrap());
        heap
    }
}

/// Transactions that change words that exist.
fn stores(bench: &mut Bench<'_>, heap: &PoolHeap, object: PoolOffset) {
    let ((), counts) = bench.measure("tx-empty", || heap.run(|_| Ok::<_, HeapError>(())).unwrap());
    assert_eq!(counts, Counts::default(), "a transaction that changes nothing asks for nothing");
    let ((), counts) = bench.measure("tx-read", || {
        heap.run(|tx| {
            tx.load8(object);
            Ok::<_, HeapError>(())
        })
        .unwrap();
    });
    assert_eq!(counts, Counts::default(), "a transaction that only reads asks for nothing");
    let (snapshot, counts) = bench.measure("snapshot", || heap.snapshot().unwrap());
    assert_eq!(counts, Counts::default(), "a snapshot asks for nothing");
    bench.one_drain(heap, "tx-1-beside-snapshot", |tx| {
        tx.store8(object, 1);
        Ok(())
    });
    drop(snapshot);
    for words in [1, 4, 16] {
        bench.one_drain(heap, &format!("tx-{words}"), |tx| {
            // Each on a line of its own.
            (0..words).for_each(|index| tx.store8(object.plus(index * 64), index + 1));
            Ok(())
        });
    }
    bench.one_drain(heap, "tx-4KiB", |tx| {
        tx.store(object, &[5; 4096]);
        Ok(())
    });
    bench.one_drain(heap, "tx-zero-4KiB", |tx| {
        tx.zero(object, 4096);
        Ok(())
    });
}

/// Transactions that allocate and free.
fn objects(bench: &mut Bench<'_>, heap: &PoolHeap, link: PoolOffset) {
    bench.one_drain(heap, "alloc-64-new-superblock", |tx| tx.alloc(64, 16, 2));
    let first = bench.one_drain(heap, "alloc-64", |tx| tx.alloc(64, 16, 2));
    for (name, len) in [("alloc-with-64", 64), ("alloc-with-1KiB", 1024), ("alloc-with-64KiB", 64 << 10)] {
        let content = vec![3; (len / WORD) as usize];
        let key = 10 + len;
        // The superblock first, which is a cost of its own.
        heap.run(|tx| tx.alloc(len, 16, key)).unwrap();
        bench.one_drain(heap, name, |tx| tx.alloc_with(&content, 16, key));
    }
    bench.one_drain(heap, "free-64", |tx| tx.free(first));
    let old = heap.run(|tx| tx.alloc(64, 16, 2)).unwrap();
    bench.one_drain(heap, "alloc-link-free", |tx| {
        let new = tx.alloc_with(&[4; 8], 16, 2)?;
        tx.store8(link, new.get());
        tx.free(old)?;
        Ok(())
    });
    let huge = heap.run(|tx| tx.alloc(100 << 10, 16, 3)).unwrap();
    bench.one_drain(heap, "free-100KiB", |tx| tx.free(huge));
}

/// Everything that goes on beside transactions.
fn lives(bench: &mut Bench<'_>, heap: PoolHeap, object: PoolOffset) -> PoolHeap {
    let big = vec![6; 40 << 10];
    let spilled = |tx: &Tx<'_, Medium>| -> Result<(), HeapError> {
        // Larger than a ring of the log, whatever the durability: the entries go elsewhere.
        (0..16).for_each(|_| tx.store(object, &big));
        Ok(())
    };
    if bench.durability == Durability::Commit {
        // There is no drain for both: the entries are synced, then the record that leads to them.
        bench.measure("tx-spilled-640KiB", || heap.run(spilled).unwrap());
    } else {
        bench.one_drain(&heap, "tx-spilled-640KiB", spilled);
    }

    heap.log().checkpoint().unwrap();
    bench.measure("checkpoint-of-nothing", || heap.log().checkpoint().unwrap());
    store_words(&heap, object, 100);
    bench.measure("checkpoint-of-100-lines", || heap.log().checkpoint().unwrap());
    bench.measure("tx-1-1000-times", || store_words(&heap, object, 1000));
    heap.log().checkpoint().unwrap();

    store_words(&heap, object, 10);
    drop(heap);
    let heap = bench.open("open-after-10-tx", 3);
    store_words(&heap, object, 10);
    bench.measure("close-after-10-tx", || heap.close().unwrap());
    bench.open("open-closed", 4)
}

fn store_words(heap: &PoolHeap, object: PoolOffset, count: u64) {
    for number in 0..count {
        heap.run(|tx| {
            tx.store8(object.plus(number % 100 * 64), number + 1);
            Ok::<_, HeapError>(())
        })
        .unwrap();
    }
}

fn measure_all(table: &mut Table, durability: Durability) {
    let medium = Arc::new(cost::medium(POOL_SIZE, durability, env!("CARGO_TARGET_TMPDIR")));
    let geometry = Geometry::plan(POOL_SIZE).unwrap();
    let mut bench = Bench { table, durability, medium, geometry };
    let (medium, geometry) = (Arc::clone(&bench.medium), bench.geometry);
    bench.measure("format", || Heap::format(&medium, &geometry, &UUID, [1; 2]).unwrap());
    let heap = bench.open("open-new", 2);
    let object = heap.run(|tx| tx.alloc_zeroed(64 << 10, 4096, 1)).unwrap();
    bench.one_drain(&heap, "set-root", |tx| {
        tx.set_root(object);
        Ok(())
    });
    stores(&mut bench, &heap, object);
    objects(&mut bench, &heap, object);
    let heap = lives(&mut bench, heap, object);
    heap.close().unwrap();
}

#[test]
fn costs_match_golden_file() {
    let mut table = Table::empty();
    for durability in DURABILITIES {
        measure_all(&mut table, durability);
    }
    table.compare(env!("CARGO_PKG_NAME"), include_str!("cost.golden"));
}
