//! read-typed and read-values: a list, and values of several types, read through the typed interface and through plain
//! references.

use crate::clock::lap;
use crate::engine::fold;
use crate::rounds::median;
use anyhow::{Context, Result};
use lode_heap::{CellValue, Guard, Heap, HeapError, PBox, PCell, Persist, TypedHeap};
use lode_layout::Geometry;
use lode_pmem::{Durability, Mapping};
use std::cell::Cell;
use std::hint::black_box;

/// Objects of the list: they fit the nearest cache.
const LIST_LEN: u64 = 500;
/// Bytes of the pool.
const POOL_LEN: u64 = 4 << 20;

/// Items whose values are read: they fit the nearest cache.
const ITEMS: usize = 500;

lode_heap::brand!(
    /// The pool of the list.
    List
);
lode_heap::brand!(
    /// The pool of the values.
    Values
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

/// The state of an item.
#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
enum State {
    Free,
    Reserved(u32),
    Sold,
}

/// An object with a field of each kind that is checked.
#[derive(Persist)]
#[persist(brand = Values)]
#[repr(C)]
struct Item {
    is_new: PCell<bool, Values>,
    state: PCell<State, Values>,
    shelf: PCell<Option<u32>, Values>,
    place: PCell<(u16, bool), Values>,
}

/// The items, in one object.
#[derive(Persist)]
#[persist(brand = Values)]
#[repr(C)]
struct Items {
    items: [Item; ITEMS],
}

/// The same item in the process's own memory.
struct PlainItem {
    is_new: Cell<bool>,
    state: Cell<State>,
    shelf: Cell<Option<u32>>,
    place: Cell<(u16, bool)>,
}

/// Returns the values of the item with that number.
fn item_values(number: u32) -> (bool, State, Option<u32>, (u16, bool)) {
    let state = match number % 3 {
        0 => State::Free,
        1 => State::Reserved(number),
        _ => State::Sold,
    };
    (
        number.is_multiple_of(2),
        state,
        (!number.is_multiple_of(5)).then_some(number),
        (number as u16, number.is_multiple_of(7)),
    )
}

/// Returns a digest of the values of one item.
#[inline]
fn digest_of(digest: u64, is_new: bool, state: State, shelf: Option<u32>, place: (u16, bool)) -> u64 {
    let state = match state {
        State::Free => 1,
        State::Reserved(by) => u64::from(by),
        State::Sold => 2,
    };
    let rest = u64::from(shelf.unwrap_or(7)) ^ u64::from(place.0) << 32 ^ u64::from(place.1) << 48;
    fold(digest, state ^ rest ^ u64::from(is_new) << 56)
}

/// Builds the list; the last one made is the first.
fn build(heap: &TypedHeap<List, Mapping>) -> Result<(), HeapError> {
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

fn walk(head: &Head, guard: &Guard<'_, List, Mapping>) -> Result<u64, HeapError> {
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
    let heap = TypedHeap::new(new_heap()?);
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

/// Returns the cycles that a read of a cell with a `bool`, an enum, an `Option` or a tuple takes more than one of a plain
/// field.
pub(super) fn value_overhead(rounds: usize, walks: usize) -> Result<f64> {
    let heap: TypedHeap<Values, Mapping> = TypedHeap::new(new_heap()?);
    let numbers: [u32; ITEMS] = std::array::from_fn(|number| number as u32);
    let items = heap.root_or_init(|_| {
        let items = numbers.map(|number| {
            let (is_new, state, shelf, place) = item_values(number);
            let (is_new, state) = (PCell::new(is_new), PCell::new(state));
            Item { is_new, state, shelf: PCell::new(shelf), place: PCell::new(place) }
        });
        Ok(Items { items })
    })?;
    let plain = numbers.map(|number| {
        let (is_new, state, shelf, place) = item_values(number);
        let (is_new, state) = (Cell::new(is_new), Cell::new(state));
        PlainItem { is_new, state, shelf: Cell::new(shelf), place: Cell::new(place) }
    });
    let mut added = Vec::new();
    for _ in 0..rounds {
        let guard = heap.guard();
        let reads = 4 * ITEMS as u64 * walks as u64;
        let (typed, digest) = lap(reads, || {
            (0..walks).flat_map(|_| &black_box(items).items).try_fold(0, |digest, item| {
                let Item { is_new, state, shelf, place } = item;
                let (is_new, state) = (is_new.load(&guard)?, state.load(&guard)?);
                Ok::<_, HeapError>(digest_of(digest, is_new, state, shelf.load(&guard)?, place.load(&guard)?))
            })
        });
        let (bare, wanted) = lap(reads, || {
            (0..walks).flat_map(|_| black_box(&plain)).fold(0, |digest, item| {
                let PlainItem { is_new, state, shelf, place } = item;
                digest_of(digest, is_new.get(), state.get(), shelf.get(), place.get())
            })
        });
        anyhow::ensure!(digest? == wanted, "the values differ");
        added.push((typed.cycles as f64 - bare.cycles as f64) / reads as f64);
    }
    Ok(median(&added))
}

/// Makes a heap in memory.
fn new_heap() -> Result<Heap<Mapping>> {
    let medium = Mapping::options().durability(Durability::Line).map_anonymous(POOL_LEN)?;
    let geometry = Geometry::plan(POOL_LEN)?;
    Heap::format(&medium, &geometry, &[1; 16], [1, 1])?;
    Ok(Heap::open(medium, &geometry, [1; 16], [2, 2])?.0)
}
