//! read-typed: a list, walked through the typed interface and through plain references.

use crate::clock::lap;
use crate::engine::fold;
use crate::rounds::median;
use anyhow::{Context, Result};
use lode_heap::{Guard, Heap, HeapError, PBox, PCell, Persist, TypedHeap};
use lode_layout::Geometry;
use lode_pmem::{Durability, Mapping};
use std::cell::Cell;
use std::hint::black_box;

/// Objects of the list: they fit the nearest cache.
const LIST_LEN: u64 = 500;
/// Bytes of the pool.
const POOL_LEN: u64 = 4 << 20;

lode_heap::brand!(
    /// The pool of the list.
    List
);

#[derive(Persist)]
#[persist(brand = List)]
#[repr(C)]
struct Head {
    first: PBox<ListNode, List>,
}

#[derive(Persist)]
#[persist(brand = List)]
#[repr(C)]
struct ListNode {
    value: PCell<u64, List>,
    next: PBox<ListNode, List>,
}

/// A node of the same list in the process's own memory.
struct PlainNode<'a> {
    value: Cell<u64>,
    next: Cell<Option<&'a PlainNode<'a>>>,
}

/// Builds the list; the last one made is the first.
fn build(heap: &TypedHeap<List>) -> Result<(), HeapError> {
    let head = heap.root_or_init(|_| Ok(Head { first: PBox::null() }))?;
    heap.run(|tx| {
        let mut first = None;
        for value in 0..LIST_LEN {
            let node = tx.alloc(ListNode { value: PCell::new(value), next: PBox::null() })?;
            if let Some(next) = first.take() {
                node.next.set(tx, next)?;
            }
            first = Some(node);
        }
        first.map_or(Ok(()), |first| head.first.set(tx, first))
    })
}

fn walk(head: &Head, guard: &Guard<'_, List>) -> Result<u64, HeapError> {
    let mut digest = 0;
    let mut next = head.first.load(guard)?;
    while let Some(node) = next {
        digest = fold(digest, node.value.load(guard)?);
        next = node.next.load(guard)?;
    }
    Ok(digest)
}

fn walk_plain(first: &PlainNode<'_>) -> u64 {
    let mut digest = 0;
    let mut next = Some(first);
    while let Some(node) = next {
        digest = fold(digest, node.value.get());
        next = node.next.get();
    }
    digest
}

/// Returns the cycles that a read through the typed interface, of a pointer or a cell, takes more than one through a
/// plain reference.
pub(super) fn read_overhead(rounds: usize, walks: usize) -> Result<f64> {
    let medium = Mapping::options().durability(Durability::Line).map_anonymous(POOL_LEN)?;
    let geometry = Geometry::plan(POOL_LEN)?;
    Heap::format(&medium, &geometry, &[1; 16], [1, 1])?;
    let heap = TypedHeap::new(Heap::open(medium, &geometry, [1; 16], [2, 2])?.0)?;
    build(&heap)?;
    let head: &Head = heap.root()?.context("made above")?;
    let plain: Vec<PlainNode<'_>> =
        (0..LIST_LEN).map(|value| PlainNode { value: Cell::new(value), next: Cell::new(None) }).collect();
    for pair in plain.windows(2) {
        pair[1].next.set(Some(&pair[0]));
    }
    let last = plain.last().context("the list is not empty")?;
    let mut added = Vec::new();
    for _ in 0..rounds {
        let guard = heap.guard();
        let reads = LIST_LEN * walks as u64;
        let (typed, digest) = lap(reads, || {
            (0..walks)
                .try_fold(0, |digest, _| Ok::<_, HeapError>(fold(digest, walk(black_box(head), &guard)?)))
        });
        let (bare, wanted) =
            lap(reads, || (0..walks).fold(0, |digest, _| fold(digest, walk_plain(black_box(last)))));
        anyhow::ensure!(digest? == wanted, "the two lists differ");
        added.push((typed.cycles as f64 - bare.cycles as f64) / reads as f64);
    }
    Ok(median(&added))
}
