//! A reader that finds a writer in the middle of its write-back waits until it is done, and does not report corruption.
//! Corruption is found all the same, beside writers that never rest.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::{Heap, HeapError};
use lode_index::{Finding, IndexError, Tree};
use lode_layout::{META_DEAD, NODE_BODY, NODE_END, NODE_META, PoolOffset, TreeSlot};
use lode_pmem::{Mapping, Medium};
use lode_testing::{heap, memory, tree};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const LEN: u64 = 4 << 20;
/// Rounds that a reader waits before the writer goes on: more than any wait that is not on purpose.
const ROUNDS: u64 = 3000;

/// A value that keeps its writer where it is, before it has stored the checksum.
const STALL_VALUE: &[u8; 8] = b"stand by";

/// A medium that keeps a writer which stores the mark of a dead node, an empty slot, or [`STALL_VALUE`] where it is.
struct StallingMedium {
    mapping: Mapping,
    is_stalled: AtomicBool,
    /// Times that a writer may still pass.
    passes: AtomicU64,
    rounds: AtomicU64,
    may_continue: AtomicBool,
}

impl StallingMedium {
    fn stall(&self) {
        let pass = |passes: u64| passes.checked_sub(1);
        if self.passes.fetch_update(Ordering::AcqRel, Ordering::Acquire, pass).is_ok() {
            return;
        }
        self.is_stalled.store(true, Ordering::Release);
        while self.rounds.load(Ordering::Acquire) < ROUNDS && !self.may_continue.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

impl lode_pmem::Layer for StallingMedium {
    type Inner = Mapping;

    fn inner(&self) -> &Mapping {
        &self.mapping
    }
    fn store8(&self, at: PoolOffset, value: u64) {
        self.mapping.store8(at, value);
        if value == META_DEAD || value == u64::from_le_bytes(*STALL_VALUE) {
            self.stall();
        }
    }
    fn relax(&self, round: u32) {
        self.rounds.fetch_add(1, Ordering::AcqRel);
        self.mapping.relax(round);
    }
}

fn heap() -> Heap<StallingMedium> {
    let (is_stalled, may_continue) = (AtomicBool::new(false), AtomicBool::new(false));
    let (passes, rounds) = (AtomicU64::new(0), AtomicU64::new(0));
    heap::create(StallingMedium {
        mapping: memory::persistent(LEN),
        is_stalled,
        passes,
        rounds,
        may_continue,
    })
}

/// A tree of two keys, and where its only inner node is.
fn tree(heap: &Heap<StallingMedium>) -> (Tree<'_, StallingMedium>, PoolOffset) {
    let tree = tree::create(heap);
    let root = tree.root();
    tree.insert(b"a", b"1").unwrap();
    tree.insert(b"b", b"2").unwrap();
    (
        tree,
        TreeSlot::from_word(heap.memory().reading(|memory| memory.load8(root.plus(NODE_END))).unwrap()).at(),
    )
}

#[test]
fn reader_waits_for_stalled_write_back() {
    let heap = heap();
    let (tree, node) = tree(&heap);
    let (meta_at, medium) = (node.plus(NODE_META), heap.medium());
    let meta = heap.memory().reading(|memory| memory.load8(meta_at)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            // The node is dead only between these two write-backs.
            heap.run(|tx| {
                tx.store8(meta_at, META_DEAD);
                tx.store8(meta_at, meta);
                Ok::<_, HeapError>(())
            })
        });
        while !medium.is_stalled.load(Ordering::Acquire) {
            thread::yield_now();
        }
        medium.rounds.store(0, Ordering::Release);
        let inserted = tree.insert(b"c", b"3");
        let waited = medium.rounds.load(Ordering::Acquire);
        medium.may_continue.store(true, Ordering::Release);
        assert_eq!(inserted, Ok(false));
        assert!(waited >= ROUNDS, "{waited}");
    });
    assert_eq!(tree.get(b"c"), Ok(Some(b"3".to_vec())));
    let is_damage = |finding| matches!(finding, Finding::Damage(_));
    assert_eq!(tree.check(|finding| assert!(!is_damage(finding))), 3);
}

/// Lets `writer` come to where the medium keeps it, and `reader` wait for it there.
fn read_during_stall<T>(
    heap: &Heap<StallingMedium>,
    writer: impl Fn() -> Result<(), IndexError> + Sync,
    reader: impl Fn() -> T,
) -> T {
    let medium = heap.medium();
    medium.is_stalled.store(false, Ordering::Release);
    medium.may_continue.store(false, Ordering::Release);
    medium.rounds.store(0, Ordering::Release);
    thread::scope(|scope| {
        let written = scope.spawn(&writer);
        while !medium.is_stalled.load(Ordering::Acquire) {
            thread::yield_now();
        }
        medium.rounds.store(0, Ordering::Release);
        let read = reader();
        let waited = medium.rounds.load(Ordering::Acquire);
        medium.may_continue.store(true, Ordering::Release);
        written.join().unwrap().unwrap();
        assert!(waited >= ROUNDS, "{waited}");
        read
    })
}

#[test]
fn reader_waits_for_checksum_of_value() {
    let heap = heap();
    let (tree, _) = tree(&heap);
    let small = |number: u64| number.to_le_bytes().to_vec();
    tree.insert(b"a", &small(1)).unwrap();
    let write = || tree.insert(b"a", STALL_VALUE).map(drop);
    assert_eq!(read_during_stall(&heap, write, || tree.get(b"a")), Ok(Some(STALL_VALUE.to_vec())));
    tree.insert(b"a", &small(2)).unwrap();
    assert_eq!(
        read_during_stall(&heap, write, || heap.run(|tx| tree.get_in(tx, b"a"))),
        Ok(Some(STALL_VALUE.to_vec()))
    );
    tree.insert(b"a", &small(3)).unwrap();
    let scan = || tree.reader().iter().map(|entry| Ok(entry?.value.into_vec())).collect();
    let scanned: Result<Vec<Vec<u8>>, IndexError> = read_during_stall(&heap, write, scan);
    assert_eq!(scanned, Ok(vec![STALL_VALUE.to_vec(), b"2".to_vec()]));
    tree.insert(b"a", &small(4)).unwrap();
    // The leaf that would have the key, of which a writer changes the value.
    let absent = || tree.delete(b"absent");
    assert_eq!(read_during_stall(&heap, write, absent), Ok(false));
}

#[test]
fn reader_waits_for_children_of_node() {
    let heap = heap();
    let (tree, node) = tree(&heap);
    let slots: Vec<PoolOffset> = (0..4).map(|index| node.plus(NODE_BODY + index * 8)).collect();
    let words: Vec<u64> =
        slots.iter().map(|slot| heap.memory().reading(|memory| memory.load8(*slot)).unwrap()).collect();
    // The slots are empty only between the write-backs.
    let write = || {
        heap.run(|tx| {
            tx.lock(node)?;
            slots[1..].iter().for_each(|slot| tx.store8(*slot, 0));
            tx.store8(slots[0], 0);
            slots.iter().zip(&words).for_each(|(slot, word)| tx.store8(*slot, *word));
            Ok(())
        })
    };
    heap.medium().passes.store(slots.len() as u64 - 1, Ordering::Release);
    let scan = || tree.reader().iter().map(|entry| Ok(entry?.key)).collect();
    let scanned: Result<Vec<Vec<u8>>, IndexError> = read_during_stall(&heap, write, scan);
    assert_eq!(scanned, Ok(vec![b"a".to_vec(), b"b".to_vec()]));
}

/// A lookup that waited for a lock would wait for ever: the transaction that holds it waits for the lookup.
#[test]
fn corruption_is_found_under_held_lock() {
    let heap = heap();
    let (tree, node) = tree(&heap);
    let leaf =
        TreeSlot::from_word(heap.memory().reading(|memory| memory.load8(node.plus(NODE_BODY))).unwrap()).at();
    let crc = heap.memory().reading(|memory| memory.load8(leaf)).unwrap();
    heap.medium().store8(leaf, crc ^ 1);
    let damage = IndexError::Corrupt { what: "the checksum of the leaf", at: leaf };
    assert_eq!(tree.get(b"a"), Err(damage.clone()));
    assert_eq!(tree.delete(b"absent"), Err(damage.clone()));
    let found: Result<_, IndexError> = heap.run(|tx| {
        tx.lock(node)?;
        let other = thread::scope(|scope| scope.spawn(|| tree.get(b"a")).join().unwrap());
        Ok((other, tree.get(b"a"), tree.get_in(tx, b"a")))
    });
    assert_eq!(found, Ok((Err(damage.clone()), Err(damage.clone()), Err(damage.clone()))));
    heap.medium().store8(leaf, crc);
    assert_eq!(tree.get(b"a"), Ok(Some(b"1".to_vec())));
}

#[test]
fn corruption_is_found_beside_busy_writer() {
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
