//! A hash map gives back what was put into it, under its key.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::{Medium, Pool};
use lode_heap::{CellValue, HeapError, PCell, PHashMap, Persist, TypedHeap, TypedTx};
use lode_layout::PoolOffset;
use lode_pmem::Medium as _;
use std::collections::HashMap;
use std::mem::offset_of;
use std::thread;

lode_heap::brand!(Modelled);
lode_heap::brand!(Shared);
lode_heap::brand!(Damaged);

/// Nine bytes, so slots are filled up.
#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
enum Stock {
    Gone,
    Left { count: u32, price: u32 },
}

#[derive(Persist)]
#[persist(brand = Modelled)]
#[repr(C)]
struct Maps {
    stock: PHashMap<(u16, bool), Stock, Modelled>,
    seen: PHashMap<u64, (), Modelled>,
}

type Model = HashMap<(u16, bool), Stock>;

fn key(random: &mut fastrand::Rng) -> (u16, bool) {
    (random.u16(..40), random.bool())
}

fn sorted(mut entries: Vec<((u16, bool), Stock)>) -> Vec<((u16, bool), Stock)> {
    entries.sort_by_key(|(key, _)| *key);
    entries
}

fn of(model: &Model) -> Vec<((u16, bool), Stock)> {
    sorted(model.iter().map(|(key, value)| (*key, *value)).collect())
}

/// Changes the map and its model in the same way, at random.
fn change(
    heap: &TypedHeap<Modelled, Medium>,
    maps: &Maps,
    model: &mut Model,
    random: &mut fastrand::Rng,
) -> Result<(), HeapError> {
    let mut after = model.clone();
    let gives_up = random.u8(..8) == 0;
    let stock = &maps.stock;
    // More is put in than taken out, or the other way round, so that the map grows and becomes empty.
    let fills = random.bool();
    let changed = heap.run(|tx| {
        after.clone_from(model);
        for _ in 0..random.u8(1..20) {
            let key = key(random);
            let new = match random.u8(..4) {
                0 => Stock::Gone,
                _ => Stock::Left { count: random.u32(..), price: random.u32(..) },
            };
            match random.u8(..8) {
                0..5 if fills => assert_eq!(stock.insert(tx, key, new)?, after.insert(key, new)),
                0..5 => assert_eq!(stock.remove(tx, key)?, after.remove(&key)),
                5 => assert_eq!(stock.insert(tx, key, new)?, after.insert(key, new)),
                _ => assert_eq!(stock.contains_key(tx, key)?, after.contains_key(&key)),
            }
            assert_eq!(stock.get(tx, key)?, after.get(&key).copied());
            assert_eq!(stock.len(tx)?, after.len() as u64);
        }
        assert_eq!(sorted(stock.to_vec(tx)?), of(&after));
        if gives_up { Err(HeapError::NeverValid { restarts: 0 }) } else { Ok(()) }
    });
    match changed {
        Ok(()) => *model = after,
        Err(HeapError::NeverValid { .. }) if gives_up => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

#[test]
fn hash_map_matches_model() {
    let mut pool = Pool::new(4 << 20);
    let mut random = fastrand::Rng::with_seed(5);
    let mut model = Model::new();
    for _ in 0..20 {
        let heap = pool.typed::<Modelled>();
        let maps = heap.root_or_init(|_| Ok(Maps { stock: PHashMap::new(), seen: PHashMap::new() })).unwrap();
        for _ in 0..60 {
            change(&heap, maps, &mut model, &mut random).unwrap();
        }
        let guard = heap.guard();
        assert_eq!(sorted(maps.stock.load_all(&guard).unwrap()), of(&model));
        assert_eq!(maps.stock.load_len(&guard), model.len() as u64);
        for number in 0..40 {
            for flag in [false, true] {
                let found = maps.stock.load(&guard, (number, flag)).unwrap();
                assert_eq!(found, model.get(&(number, flag)).copied());
            }
        }
    }
    let heap = pool.typed::<Modelled>();
    let maps = heap.root::<Maps>().unwrap().unwrap();
    let numbers = 0..5000_u64;
    heap.run(|tx| {
        numbers
            .clone()
            .try_for_each(|number| maps.seen.insert(tx, number * number, ()).map(|old| assert_eq!(old, None)))
    })
    .unwrap();
    let guard = heap.guard();
    assert!(numbers.clone().all(|number| maps.seen.load(&guard, number * number) == Ok(Some(()))));
    assert_eq!((maps.seen.load(&guard, 2), maps.seen.load_len(&guard)), (Ok(None), 5000));
    drop(guard);
    heap.run(|tx| {
        maps.stock.clear(tx)?;
        maps.stock.clear(tx)?;
        numbers.clone().rev().try_for_each(|number| {
            maps.seen.remove(tx, number * number).map(|old| assert_eq!(old, Some(())))
        })?;
        assert!(maps.seen.is_empty(tx)?);
        maps.seen.clear(tx)
    })
    .unwrap();
    assert_eq!(heap.objects().count(), 3, "the root, the root object and its types");
    assert_eq!(heap.run(|tx| maps.stock.remove(tx, (1, true))), Ok(None));
    assert_eq!(heap.run(|tx| maps.stock.get(tx, (1, true))), Ok(None));
}

#[derive(Persist)]
#[persist(brand = Shared)]
#[repr(C)]
struct Accounts {
    balances: PHashMap<u32, u64, Shared>,
    opened: PCell<u64, Shared>,
}

/// Threads move money between accounts, and open one if it is not there: nothing is lost, and none is opened twice.
#[test]
fn transfers_are_serializable() {
    const ACCOUNTS: u32 = 50;
    const START: u64 = 1000;
    let mut pool = Pool::new(4 << 20);
    let heap = pool.typed::<Shared>();
    let accounts =
        heap.root_or_init(|_| Ok(Accounts { balances: PHashMap::new(), opened: PCell::new(0) })).unwrap();
    let balance = |tx: &TypedTx<'_, Shared, Medium>, account: u32| {
        if let Some(balance) = accounts.balances.get(tx, account)? {
            return Ok::<_, HeapError>(balance);
        }
        accounts.opened.set(tx, accounts.opened.get(tx)? + 1)?;
        Ok(START)
    };
    let transfer = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..400 {
            let [from, to] = [random.u32(..ACCOUNTS), random.u32(..ACCOUNTS)];
            if from == to {
                continue;
            }
            let amount = random.u64(1..10);
            heap.run(|tx| {
                let [from_balance, to_balance] = [balance(tx, from)?, balance(tx, to)?];
                accounts.balances.insert(tx, from, from_balance.saturating_sub(amount))?;
                accounts.balances.insert(tx, to, to_balance + amount.min(from_balance))?;
                Ok(())
            })
            .unwrap();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| transfer(1));
        scope.spawn(|| transfer(2));
    });
    let guard = heap.guard();
    let all = accounts.balances.load_all(&guard).unwrap();
    assert_eq!(accounts.opened.load(&guard), Ok(all.len() as u64));
    assert_eq!(all.iter().map(|(_, balance)| balance).sum::<u64>(), START * all.len() as u64);
}

#[derive(Persist)]
#[persist(brand = Damaged)]
#[repr(C)]
struct Flags {
    flags: PHashMap<u64, bool, Damaged>,
}

#[test]
fn damaged_hash_maps_are_errors() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Damaged>();
    let root = heap.root_or_init(|_| Ok(Flags { flags: PHashMap::new() })).unwrap();
    heap.run(|tx| (0..6).try_for_each(|number| root.flags.insert(tx, number, true).map(drop))).unwrap();
    let number = <Flags as Persist<Damaged>>::TYPE_NUMBER;
    let at =
        heap.objects().find(|object| object.as_ref().unwrap().type_number == number).unwrap().unwrap().at;
    let word = |index: u64| at.plus(offset_of!(Flags, flags) as u64 + 8 * index);
    let load8 = |at| pool.medium().memory().reading(|memory| memory.load8(at)).unwrap();
    let buffer = PoolOffset::new(load8(word(0)));
    let corrupt = HeapError::Corrupt { what: "the hash map whose buffer", at: buffer };
    let all_fail = |what: &str| {
        assert_eq!(heap.run(|tx| root.flags.insert(tx, 77, true)), Err(corrupt.clone()), "{what}");
        assert_eq!(heap.run(|tx| root.flags.remove(tx, 77)), Err(corrupt.clone()), "{what}");
        assert_eq!(root.flags.load(&heap.guard(), 77), Err(corrupt.clone()), "{what}");
    };
    // The number of slots, and that of entries.
    for (index, value) in [(1, 0), (1, 7), (1, 1 << 40), (1, u64::MAX), (2, 7), (2, 8), (2, u64::MAX)] {
        let sound = load8(word(index));
        pool.medium().store8(word(index), value);
        all_fail(&format!("word {index} is {value}"));
        // A read in a transaction does not depend on the number of entries.
        let got = if index == 2 { Ok(None) } else { Err(corrupt.clone()) };
        assert_eq!(heap.run(|tx| root.flags.get(tx, 77)), got);
        assert_eq!(root.flags.load_all(&heap.guard()), Err(corrupt.clone()));
        pool.medium().store8(word(index), sound);
    }
    // More slots than the buffer has: no change reaches beyond it.
    for room in [16, 1024] {
        pool.medium().store8(word(1), room);
        assert_eq!(heap.run(|tx| root.flags.insert(tx, 77, true)), Err(corrupt.clone()), "{room} slots");
        assert_eq!(heap.run(|tx| root.flags.remove(tx, 77)), Err(corrupt.clone()), "{room} slots");
        assert_eq!(heap.run(|tx| root.flags.clear(tx)), Err(corrupt.clone()), "{room} slots");
    }
    pool.medium().store8(word(1), 8);
    // Fewer entries than there are: the removal that finds it changes nothing, also if its error is dropped.
    pool.medium().store8(word(2), 0);
    heap.run(|tx| {
        assert_eq!(root.flags.remove(tx, 3), Err(corrupt.clone()));
        Ok(())
    })
    .unwrap();
    pool.medium().store8(word(2), 6);
    assert_eq!(heap.run(|tx| root.flags.get(tx, 3)), Ok(Some(true)));
    // A value that is none, under each key.
    let slots: Vec<u64> = (0..8).filter(|slot| load8(buffer.plus(24 * slot)) != 0).collect();
    assert_eq!(slots.len(), 6);
    for slot in &slots {
        pool.medium().store8(buffer.plus(24 * slot + 16), 7);
    }
    for key in 0..6 {
        let invalid = |error| matches!(error, HeapError::InvalidValue { name: "bool", .. });
        assert!(root.flags.load(&heap.guard(), key).is_err_and(invalid));
        assert!(heap.run(|tx| root.flags.get(tx, key)).is_err_and(invalid));
        assert!(heap.run(|tx| root.flags.remove(tx, key)).is_err_and(invalid));
    }
    // No slot is free: a search for a key that is not there would never end.
    for slot in 0..8 {
        pool.medium().store8(buffer.plus(24 * slot), 3);
    }
    all_fail("no free slot");
    assert_eq!(heap.run(|tx| root.flags.get(tx, 77)), Err(corrupt.clone()));
}
