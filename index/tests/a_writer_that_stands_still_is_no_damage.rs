//! Who meets a writer in the middle of its home stores waits for as long as that takes, and does not call it damage.
//! Damage is found all the same, beside writers that never rest.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::{Heap, HeapError};
use lode_index::{Finding, IndexError, Tree};
use lode_layout::{Geometry, META_DEAD, NODE_END, NODE_META, PoolOffset, TreeSlot};
use lode_pmem::{Gate, Mapping, Medium, Memory, Rung, SyncError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const LEN: u64 = 4 << 20;
/// Rounds for which somebody waits before the writer goes on: longer than any that is not waited for on purpose.
const ROUNDS: u64 = 3000;

/// A medium that keeps a writer which stores the mark of a dead node where it is.
struct Stopping {
    mapping: Mapping,
    is_stopped: AtomicBool,
    rounds: AtomicU64,
    may_go_on: AtomicBool,
}

impl Stopping {
    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        while self.rounds.load(Ordering::Acquire) < ROUNDS && !self.may_go_on.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

impl Medium for Stopping {
    fn memory(&self) -> &Memory {
        self.mapping.memory()
    }
    fn rung(&self) -> Rung {
        self.mapping.rung()
    }
    fn log_block(&self) -> u64 {
        self.mapping.log_block()
    }
    fn store8(&self, at: PoolOffset, value: u64) {
        self.mapping.store8(at, value);
        if value == META_DEAD {
            self.stop();
        }
    }
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.mapping.store(at, bytes);
    }
    fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.mapping.compare_exchange8(at, current, new)
    }
    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        self.mapping.copy(at, bytes);
    }
    fn flush(&self, at: PoolOffset, len: u64) {
        self.mapping.flush(at, len);
    }
    fn drain(&self) -> Result<(), SyncError> {
        self.mapping.drain()
    }
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        self.mapping.log_write(at, bytes)
    }
    fn relax(&self, round: u32) {
        self.rounds.fetch_add(1, Ordering::AcqRel);
        self.mapping.relax(round);
    }
    fn wait_while(&self, gate: &Gate, blocked: &mut dyn FnMut() -> bool) {
        self.mapping.wait_while(gate, blocked);
    }
}

fn heap() -> Heap<Stopping> {
    let mapping = Mapping::options().rung(Rung::Line).map_anonymous(LEN).unwrap();
    let (is_stopped, may_go_on) = (AtomicBool::new(false), AtomicBool::new(false));
    let medium = Stopping { mapping, is_stopped, rounds: AtomicU64::new(0), may_go_on };
    let geometry = Geometry::plan(LEN).unwrap();
    Heap::format(&medium, &geometry, &[9; 16], [1, 1]).unwrap();
    Heap::open(medium, &geometry, [9; 16], [2, 2]).unwrap().0
}

/// A tree of two keys, and where its only inner node is.
fn tree(heap: &Heap<Stopping>) -> (Tree<'_, Stopping>, PoolOffset) {
    let root = heap.run(Tree::create).unwrap();
    let tree = Tree::open(heap, root).unwrap();
    tree.insert(b"a", b"1").unwrap();
    tree.insert(b"b", b"2").unwrap();
    (tree, TreeSlot::from_word(heap.memory().load8(root.plus(NODE_END))).at())
}

#[test]
fn a_writer_that_stands_still_in_its_home_stores_is_waited_for() {
    let heap = heap();
    let (tree, node) = tree(&heap);
    let (meta_at, medium) = (node.plus(NODE_META), heap.medium());
    let meta = heap.memory().load8(meta_at);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The node is dead between its home stores, and for nobody before or after.
            heap.run(|tx| {
                tx.store8(meta_at, META_DEAD);
                tx.store8(meta_at, meta);
                Ok::<_, HeapError>(())
            })
        });
        while !medium.is_stopped.load(Ordering::Acquire) {
            thread::yield_now();
        }
        medium.rounds.store(0, Ordering::Release);
        let inserted = tree.insert(b"c", b"3");
        let waited = medium.rounds.load(Ordering::Acquire);
        medium.may_go_on.store(true, Ordering::Release);
        assert_eq!(inserted, Ok(false));
        assert!(waited >= ROUNDS, "{waited}");
    });
    assert_eq!(tree.get(b"c"), Ok(Some(b"3".to_vec())));
    let is_damage = |finding| matches!(finding, Finding::Damage(_));
    assert_eq!(tree.check(|finding| assert!(!is_damage(finding))), 3);
}

#[test]
fn damage_is_found_beside_a_writer_that_never_rests() {
    let heap = heap();
    let (tree, node) = tree(&heap);
    let object = heap.run(|tx| tx.alloc(64, 16, 1)).unwrap();
    let damaged = Err(IndexError::Corrupt { what: "the node of the tree", at: node });
    heap.medium().store8(node.plus(NODE_META), 1);
    assert_eq!(tree.insert(b"c", b"3"), damaged);
    let (is_over, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let write = 1 + writes.fetch_add(1, Ordering::Relaxed);
                heap.run(|tx| {
                    tx.store8(object, write);
                    Ok::<_, HeapError>(())
                })
                .unwrap();
            }
        });
        let found = tree.insert(b"c", b"3");
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(found, damaged);
    });
}
