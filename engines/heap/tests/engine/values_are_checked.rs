//! Cells and vectors hold values of any shape, and bytes that are no value are an error.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::Pool;
use lode_heap::{CellValue, HeapError, Object, PBox, PCell, PVec, Persist};
use lode_layout::{PoolOffset, TYPE_TYPE_TABLE, TYPE_TYPED_ROOT};
use lode_pmem::Medium;
use std::mem::offset_of;

lode_heap::brand!(Shop);
lode_heap::brand!(Damaged);
lode_heap::brand!(Queues);
lode_heap::brand!(Gaps);

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
enum State {
    Free,
    Reserved { by: u32, until: Option<u64> },
    Sold(Price),
}

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
struct Price {
    cents: u64,
    currency: Currency,
}

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
enum Currency {
    Euro = 1,
    Zloty = 40,
}

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Item {
    state: PCell<State, Shop>,
    is_new: PCell<bool, Shop>,
    shelf: PCell<Option<(char, u16)>, Shop>,
    history: PVec<State, Shop>,
}

#[test]
fn values_round_trip() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Shop>();
    let item = heap
        .root_or_init(|_| {
            let (state, shelf) = (PCell::new(State::Free), PCell::new(None));
            Ok(Item { state, is_new: PCell::new(true), shelf, history: PVec::new() })
        })
        .unwrap();
    let sold = State::Sold(Price { cents: 995, currency: Currency::Zloty });
    let states = [State::Free, State::Reserved { by: 7, until: Some(u64::MAX) }, sold];
    heap.run(|tx| {
        assert_eq!(
            (item.state.get(tx)?, item.is_new.get(tx)?, item.shelf.get(tx)?),
            (State::Free, true, None)
        );
        for state in states {
            item.state.set(tx, state)?;
            assert_eq!((item.state.get(tx)?, item.state.get_unvalidated(tx)?), (state, state));
        }
        item.is_new.set(tx, false)?;
        item.shelf.set(tx, Some(('ß', 40)))?;
        item.history.extend_from_slice(tx, &states)?;
        assert_eq!(item.history.get(tx, 2)?, Some(sold));
        item.history.set(tx, 0, sold)?;
        assert_eq!(item.history.to_vec(tx)?, [sold, states[1], sold]);
        assert_eq!(item.history.pop(tx)?, Some(sold));
        Ok(())
    })
    .unwrap();
    drop(heap);
    let heap = pool.typed::<Shop>();
    let (item, guard) = (heap.root::<Item>().unwrap().unwrap(), heap.guard());
    assert_eq!(item.state.load(&guard), Ok(sold));
    assert_eq!((item.is_new.load(&guard), item.shelf.load(&guard)), (Ok(false), Ok(Some(('ß', 40)))));
    assert_eq!(item.history.load_all(&guard).unwrap(), [sold, states[1]]);
    assert_eq!(item.history.load(&guard, 1).unwrap(), Some(states[1]));
}

#[derive(Persist)]
#[persist(brand = Damaged)]
#[repr(C)]
struct Flags {
    small: PCell<bool, Damaged>,
    large: PCell<State, Damaged>,
    many: PVec<Currency, Damaged>,
}

/// A byte that no value has is an error that names the type and the place, in a transaction and outside of it.
#[test]
fn damaged_values_are_errors() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Damaged>();
    let flags = heap
        .root_or_init(|_| {
            Ok(Flags { small: PCell::new(true), large: PCell::new(State::Free), many: PVec::new() })
        })
        .unwrap();
    heap.run(|tx| flags.many.extend_from_slice(tx, &[Currency::Euro; 3])).unwrap();
    let number = <Flags as Persist<Damaged>>::TYPE_NUMBER;
    let root =
        heap.objects().find(|object| object.as_ref().unwrap().type_number == number).unwrap().unwrap().at;
    let others = [number, TYPE_TYPED_ROOT, TYPE_TYPE_TABLE];
    let is_buffer = |object: &Object| !others.contains(&object.type_number);
    let buffer = heap.objects().map(Result::unwrap).find(is_buffer).unwrap().at;
    let at = |field: usize| root.plus(field as u64);
    let places = [at(offset_of!(Flags, small)), at(offset_of!(Flags, large)), buffer];
    for place in places {
        pool.medium().store8(place, u64::from_le_bytes([9; 8]));
    }
    let guard = heap.guard();
    let [small, large, element] = places;
    let invalid = |name, at: PoolOffset| HeapError::InvalidValue { name, at };
    assert_eq!(flags.small.load(&guard), Err(invalid("bool", small)));
    assert_eq!(flags.large.load(&guard), Err(invalid("State", large)));
    assert_eq!(flags.many.load(&guard, 0), Err(invalid("Currency", element)));
    assert_eq!(flags.many.load_all(&guard), Err(invalid("Currency", element)));
    drop(guard);
    assert_eq!(heap.run(|tx| flags.small.get(tx)), Err(invalid("bool", small)));
    assert_eq!(heap.run(|tx| flags.large.get(tx)), Err(invalid("State", large)));
    assert_eq!(heap.run(|tx| flags.large.get_unvalidated(tx)), Err(invalid("State", large)));
    assert_eq!(heap.run(|tx| flags.many.get(tx, 1)), Err(invalid("Currency", element.plus(1))));
    let message = heap.run(|tx| flags.small.get(tx)).unwrap_err().to_string();
    assert_eq!(message, format!("the bytes at {small} are no value of the type bool; check the pool"));
    // A store makes it a value again.
    heap.run(|tx| flags.small.set(tx, false)).unwrap();
    assert_eq!(flags.small.load(&heap.guard()), Ok(false));
}

/// A queue of anything, in any pool.
#[derive(Persist)]
#[persist(brand = B)]
#[repr(C)]
struct Queue<T, B> {
    first: PBox<Link<T, B>, B>,
    len: PCell<u64, B>,
}

#[derive(Persist)]
#[persist(brand = B, type_number = 77)]
#[repr(C)]
struct Link<T, B> {
    value: T,
    next: PBox<Link<T, B>, B>,
}

#[test]
fn types_have_parameters() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Queues>();
    let new = || Queue { first: PBox::null(), len: PCell::new(0) };
    let queue = heap.root_or_init::<Queue<PCell<Option<u64>, Queues>, Queues>>(|_| Ok(new())).unwrap();
    for number in 0..3 {
        heap.run(|tx| {
            let link = tx.alloc(Link { value: PCell::new(Some(number)), next: PBox::null() })?;
            if let Some(rest) = queue.first.take(tx)? {
                link.next.set(tx, rest)?;
            }
            queue.first.set(tx, link)?;
            queue.len.set(tx, queue.len.get(tx)? + 1)
        })
        .unwrap();
    }
    let guard = heap.guard();
    let mut found = Vec::new();
    let mut next = queue.first.load(&guard).unwrap();
    while let Some(link) = next {
        found.push(link.value.load(&guard).unwrap());
        next = link.next.load(&guard).unwrap();
    }
    assert_eq!((queue.len.load(&guard), found), (Ok(3), vec![Some(2), Some(1), Some(0)]));
    drop(guard);
    // The parameter is a part of the type.
    assert!(matches!(heap.root::<Queue<u64, Queues>>(), Err(HeapError::OtherTypes(_))));
    assert_ne!(<Queue<u64, Queues> as Persist<Queues>>::NAME, <Queue<i64, Queues> as Persist<Queues>>::NAME);
    type Number<T> = Link<T, Queues>;
    assert_ne!(<Number<u64> as Persist<Queues>>::TYPE_NUMBER, <Number<i64> as Persist<Queues>>::TYPE_NUMBER);
    heap.run(|tx| queue.first.take(tx)?.map_or(Ok(()), |first| first.free())).unwrap();
    assert_eq!(heap.objects().count(), 3, "the root, the root object and its types");
}

#[derive(Persist)]
#[persist(brand = Gaps)]
#[repr(C)]
struct Gap {
    short: u8,
    long: u64,
    pairs: [Pair; 2],
    cell: PCell<(u64, bool), Gaps>,
    last: u16,
}

#[derive(Persist)]
#[persist(brand = Gaps)]
#[repr(C)]
struct Pair {
    small: PCell<u8, Gaps>,
    tail: u8,
}

/// Padding is allowed, and zero on the medium.
#[test]
fn padding_carries_nothing() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Gaps>();
    let pair = |tail| Pair { small: PCell::new(7), tail };
    let gap = heap
        .root_or_init(|_| {
            let cell = PCell::new((u64::MAX, true));
            Ok(Gap { short: 1, long: u64::MAX, pairs: [pair(8), pair(9)], cell, last: 0xFFFF })
        })
        .unwrap();
    assert_eq!((gap.short, gap.long, gap.pairs[1].tail, gap.last), (1, u64::MAX, 9, 0xFFFF));
    assert_eq!(gap.cell.load(&heap.guard()), Ok((u64::MAX, true)));
    let at = heap.objects().next().unwrap().unwrap().at;
    let words = pool.medium().memory().reading(|memory| {
        (0..size_of::<Gap>() as u64 / 8).map(|word| memory.load8(at.plus(8 * word))).collect::<Vec<_>>()
    });
    assert_eq!(words.unwrap(), [1, u64::MAX, 7, 8, 7, 9, u64::MAX, 1, 0xFFFF]);
}
