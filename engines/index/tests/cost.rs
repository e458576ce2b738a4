//! What each operation of the tree asks of the medium: drains, lines, bytes. CONTRIBUTING.md, "Costs", says how to
//! change it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::Heap;
use lode_index::Tree;
use lode_pmem::{Counted, Counts, Durability, Mapping};
use lode_testing::cost::{self, Table};
use lode_testing::{heap, tree};
use std::sync::Arc;

type Medium = Arc<Counted<Mapping>>;

const POOL_SIZE: u64 = 16 << 20;
const VALUE: [u8; 8] = [7; 8];

/// A tree under measurement.
struct Bench<'a> {
    table: &'a mut Table,
    durability: Durability,
    heap: &'a Heap<Medium>,
    tree: Tree<'a, Medium>,
}

impl Bench<'_> {
    fn measure<R>(&mut self, name: &str, operation: impl FnOnce(&Tree<'_, Medium>) -> R) -> Counts {
        // Lest one falls due in the middle; what checkpoints cost is in the table of lode-heap.
        self.heap.log().checkpoint().unwrap();
        let before = self.heap.medium().counts();
        operation(&self.tree);
        let counts = self.heap.medium().counts() - before;
        self.table.add(name, self.durability, counts);
        counts
    }

    /// An operation that changes the tree: exactly one drain between begin and return.
    fn change<R>(&mut self, name: &str, operation: impl FnOnce(&Tree<'_, Medium>) -> R) {
        let counts = self.measure(name, operation);
        assert_eq!(
            counts.drains, 1,
            "{name} on {}: exactly one drain between begin and return",
            self.durability
        );
    }

    /// An operation that reads: it asks for nothing.
    fn read<R>(&mut self, name: &str, operation: impl FnOnce(&Tree<'_, Medium>) -> R) {
        assert_eq!(self.measure(name, operation), Counts::default(), "{name} on {}", self.durability);
    }
}

/// The keys of one node with up to 256 children.
fn key(prefix: u8, child: u64) -> [u8; 3] {
    [prefix, b'/', child as u8]
}

/// A node that gains its children one by one, with a line for each that changes its kind and for each in between.
fn growth(bench: &mut Bench<'_>) {
    let names = [
        (1, "insert-first"),
        (2, "insert-makes-node4"),
        (3, "insert-into-node4"),
        (5, "insert-makes-node16"),
        (6, "insert-into-node16"),
        (17, "insert-makes-node48"),
        (18, "insert-into-node48"),
        (49, "insert-makes-node256"),
        (50, "insert-into-node256"),
    ];
    for count in 1..=60 {
        let insert = |tree: &Tree<'_, Medium>| tree.insert(&key(b'm', count), &VALUE).unwrap();
        match names.iter().find(|(at, _)| *at == count) {
            Some((_, name)) => bench.change(name, insert),
            None => _ = insert(&bench.tree),
        }
    }
    bench.change("insert-splits-prefix", |tree| tree.insert(b"m-", &VALUE).unwrap());
    bench.change("insert-ends-at-node", |tree| tree.insert(b"m/", &VALUE).unwrap());
}

fn values(bench: &mut Bench<'_>) {
    let at = key(b'm', 3);
    bench.change("replace-8-by-8", |tree| tree.insert(&at, &[8; 8]).unwrap());
    bench.change("replace-8-by-100", |tree| tree.insert(&at, &[8; 100]).unwrap());
    bench.change("replace-100-by-8", |tree| tree.insert(&at, &VALUE).unwrap());
    bench.change("insert-value-1KiB", |tree| tree.insert(b"v1", &[8; 1024]).unwrap());
    bench.change("insert-value-64KiB", |tree| tree.insert(b"v64", &[8; 64 << 10]).unwrap());
    bench.change("insert-key-1KiB", |tree| tree.insert(&[b'k'; 1024], &VALUE).unwrap());
    bench.read("get", |tree| tree.get(&at).unwrap().unwrap());
    bench.read("get-missing", |tree| assert_eq!(tree.get(b"nowhere").unwrap(), None));
    bench.read("count", |tree| tree.count().unwrap());
}

/// A node that loses its children one by one.
fn shrinkage(bench: &mut Bench<'_>) {
    let names = [
        (59, "delete-from-node256"),
        (32, "delete-makes-node48"),
        (31, "delete-from-node48"),
        (12, "delete-makes-node16"),
        (11, "delete-from-node16"),
        (3, "delete-makes-node4"),
        (2, "delete-from-node4"),
        (0, "delete-last-child"),
    ];
    bench.change("delete-ends-at-node", |tree| assert!(tree.delete(b"m/").unwrap()));
    for left in (0..60).rev() {
        let delete = |tree: &Tree<'_, Medium>| assert!(tree.delete(&key(b'm', left + 1)).unwrap());
        match names.iter().find(|(at, _)| *at == left) {
            Some((_, name)) => bench.change(name, delete),
            None => delete(&bench.tree),
        }
    }
    bench.read("delete-missing", |tree| assert!(!tree.delete(b"nowhere").unwrap()));
}

fn measure_all(table: &mut Table, durability: Durability) {
    let heap = heap::create(Arc::new(cost::medium(POOL_SIZE, durability, env!("CARGO_TARGET_TMPDIR"))));
    let tree = tree::create(&heap);
    // Superblocks for nodes of each kind: making one is a cost of its own, in the table of lode-heap.
    for child in 0..60 {
        tree.insert(&key(b'w', child), &VALUE).unwrap();
        tree.insert(&key(b'x', child), &[8; 100]).unwrap();
    }
    let mut bench = Bench { table, durability, heap: &heap, tree };
    growth(&mut bench);
    values(&mut bench);
    shrinkage(&mut bench);
}

#[test]
fn costs_match_golden_file() {
    let mut table = Table::empty();
    for durability in [Durability::Line, Durability::Commit] {
        measure_all(&mut table, durability);
    }
    table.compare(env!("CARGO_PKG_NAME"), include_str!("cost.golden"));
}
