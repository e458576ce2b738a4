//! A map in a pool of typed data gives back what was put into it, in order, and all its space.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_fsck::check_pool;
use lode_heap::{CellValue, HeapError, PBox, PVec, Persist, TypedHeap};
use lode_index::{MapKey, PMap, StoreLayout};
use lode_layout::KEY_LEN_MAX;
use lode_pmem::Mapping;
use lode_testing::{kv, memory};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;
use std::sync::Arc;

lode_heap::brand!(Shop);

type Heap = TypedHeap<Shop, Arc<Mapping>>;
type Make<T> = fn(&mut fastrand::Rng) -> T;

/// Twelve bytes: a value that takes more than a word.
#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
enum Stock {
    None,
    Some { count: u64, cents: u16, fresh: bool },
}

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Root {
    by_name: PMap<String, Stock, Shop>,
    by_place: PMap<(i32, String, u8), u16, Shop>,
    flags: PMap<Vec<u8>, (), Shop>,
    shelf: PBox<Shelf, Shop>,
}

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Shelf {
    numbers: PVec<u64, Shop>,
    items: PMap<u64, u64, Shop>,
    next: PBox<Shelf, Shop>,
}

fn shelf() -> Shelf {
    Shelf { numbers: PVec::new(), items: PMap::new(), next: PBox::null() }
}

fn root() -> Root {
    Root { by_name: PMap::new(), by_place: PMap::new(), flags: PMap::new(), shelf: PBox::null() }
}

fn stock(random: &mut fastrand::Rng) -> Stock {
    match random.u8(..4) {
        0 => Stock::None,
        _ => Stock::Some { count: random.u64(..), cents: random.u16(..), fresh: random.bool() },
    }
}

fn name(random: &mut fastrand::Rng) -> String {
    let len = random.usize(..6);
    (0..len).map(|_| ['\0', 'a', 'b', 'ß'][random.usize(..4)]).collect()
}

/// Checks the whole pool: no damage, and no object to which nothing leads.
#[track_caller]
fn assert_sound(medium: &Arc<Mapping>) {
    let view = Arc::new(memory::from_bytes(&memory::bytes(medium)));
    let report = check_pool(view, &[&StoreLayout]);
    assert!(report.is_clean() && report.traced, "{report}");
    assert_eq!(report.counts.reached, report.counts.objects);
}

/// Does a few things to the map and its model, in one transaction, which sometimes fails.
fn change<K: MapKey + Clone + Ord + Debug, V: CellValue + PartialEq + Debug>(
    heap: &Heap,
    map: &PMap<K, V, Shop>,
    model: &mut BTreeMap<K, V>,
    random: &mut fastrand::Rng,
    (key, value): (Make<K>, Make<V>),
) {
    let mut after = model.clone();
    let gives_up = random.u8(..8) == 0;
    let changed = heap.run(|tx| {
        after.clone_from(model);
        for _ in 0..random.u8(1..8) {
            let key = key(random);
            match random.u8(..40) {
                0..18 => {
                    let value = value(random);
                    assert_eq!(map.insert(tx, &key, value)?, after.insert(key, value));
                }
                18..30 => assert_eq!(map.remove(tx, &key)?, after.remove(&key)),
                30..33 => assert_eq!(map.get(tx, &key)?, after.get(&key).copied()),
                33..35 => assert_eq!(map.contains(tx, &key)?, after.contains_key(&key)),
                35 => {
                    let bounds = (Bound::Excluded(key.clone()), Bound::Unbounded);
                    let found: Vec<_> = map.range(tx, bounds.clone())?.rev().collect::<Result<_, _>>()?;
                    let wanted = after.range(bounds).rev().map(|(key, value)| (key.clone(), *value));
                    assert_eq!(found, wanted.collect::<Vec<_>>());
                }
                36 => {
                    let entry = |entry: Option<(&K, &V)>| entry.map(|(key, value)| (key.clone(), *value));
                    assert_eq!(map.first(tx)?, entry(after.first_key_value()));
                    assert_eq!(map.last(tx)?, entry(after.last_key_value()));
                }
                37 if random.u8(..4) == 0 => {
                    map.clear(tx)?;
                    after.clear();
                }
                _ => {}
            }
            assert_eq!(map.len(tx)?, after.len() as u64);
            assert_eq!(map.is_empty(tx)?, after.is_empty());
        }
        if gives_up { Err(HeapError::NeverValid { restarts: 0 }) } else { Ok(()) }
    });
    match changed {
        Ok(()) => *model = after,
        Err(error) => assert!(gives_up && matches!(error, HeapError::NeverValid { .. }), "{error}"),
    }
}

#[track_caller]
fn assert_same<K: MapKey + Clone + Ord + Debug, V: CellValue + PartialEq + Debug>(
    heap: &Heap,
    map: &PMap<K, V, Shop>,
    model: &BTreeMap<K, V>,
) {
    let guard = heap.guard();
    let all: Vec<(K, V)> = map.load_range(&guard, ..).collect::<Result<_, _>>().unwrap();
    assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
    let back = map.load_range(&guard, ..).rev().map(Result::unwrap);
    assert!(back.eq(model.clone().into_iter().rev()));
    for (key, value) in model {
        assert_eq!(map.load(&guard, key).unwrap(), Some(*value));
    }
    assert_eq!(map.load_len(&guard).unwrap(), model.len() as u64);
}

#[test]
fn map_matches_model_and_reopens() {
    let mut heap = kv::create_empty(4 << 20, "shop");
    let mut random = fastrand::Rng::with_seed(11);
    let (mut names, mut places, mut flags) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for life in 0..12 {
        let medium = Arc::clone(heap.medium());
        let typed = Heap::new(heap);
        let root = typed.root_or_init(|_| Ok(root())).unwrap();
        for _ in 0..60 {
            change(&typed, &root.by_name, &mut names, &mut random, (name, stock));
            let place = |random: &mut fastrand::Rng| (random.i32(-2..2), name(random), random.u8(..3));
            change(&typed, &root.by_place, &mut places, &mut random, (place, |random| random.u16(..)));
            let flag = |random: &mut fastrand::Rng| name(random).into_bytes();
            change(&typed, &root.flags, &mut flags, &mut random, (flag, |_| ()));
        }
        assert_same(&typed, &root.by_name, &names);
        assert_same(&typed, &root.by_place, &places);
        assert_same(&typed, &root.flags, &flags);
        typed.close().unwrap();
        assert_sound(&medium);
        heap = kv::open(&medium, [life, 9]).unwrap();
    }
    assert!(names.len() > 20 && places.len() > 20);
    let medium = Arc::clone(heap.medium());
    let typed = Heap::new(heap);
    let root = typed.root::<Root>().unwrap().unwrap();
    typed
        .run(|tx| {
            root.by_name.clear(tx)?;
            root.by_name.clear(tx)?;
            root.by_place.clear(tx)?;
            root.flags.clear(tx)
        })
        .unwrap();
    assert_eq!(typed.objects().count(), 3, "the root, the root object and its types");
    typed.close().unwrap();
    assert_sound(&medium);
}

#[test]
fn owner_frees_its_maps() {
    let heap = kv::create_empty(4 << 20, "shop");
    let medium = Arc::clone(heap.medium());
    let heap = Heap::new(heap);
    let root = heap.root_or_init(|_| Ok(root())).unwrap();
    let fill = |count: u64| {
        heap.run(|tx| {
            let new = tx.alloc(shelf())?;
            new.next.set(tx, tx.alloc(shelf())?)?;
            let below = new.next.get(tx)?.unwrap();
            for number in 0..count {
                new.items.insert(tx, number * 0x0101_0101, number)?;
                below.items.insert(tx, number, number)?;
                new.numbers.push(tx, number)?;
            }
            root.shelf.set(tx, new)
        })
    };
    fill(1000).unwrap();
    assert!(heap.objects().count() > 2000);
    // A pointer that is overwritten frees what it owned, and an object that is dropped in its transaction is gone, too.
    fill(0).unwrap();
    assert_eq!(heap.objects().count(), 5);
    fill(1).unwrap();
    assert_eq!(heap.objects().count(), 3 + 2 + 1 + 2 * 2);
    heap.run(|tx| {
        let dropped = tx.alloc(shelf())?;
        dropped.items.insert(tx, 1, 1)?;
        drop(dropped);
        root.shelf.take(tx).map(drop)
    })
    .unwrap();
    assert_eq!(heap.objects().count(), 3);
    heap.close().unwrap();
    assert_sound(&medium);
}

#[test]
fn empty_map_takes_no_object() {
    let heap = Heap::new(kv::create_empty(4 << 20, "shop"));
    let root = heap.root_or_init(|_| Ok(root())).unwrap();
    let long = "x".repeat(KEY_LEN_MAX + 1);
    heap.run(|tx| {
        assert_eq!(root.by_name.get(tx, "a")?, None);
        assert_eq!(root.by_name.remove(tx, "a")?, None);
        assert_eq!((root.by_name.len(tx)?, root.by_name.first(tx)?), (0, None));
        root.by_name.clear(tx)?;
        let too_long = HeapError::KeyTooLong { len: long.len(), max: KEY_LEN_MAX };
        assert_eq!(root.by_name.insert(tx, &*long, Stock::None), Err(too_long));
        Ok::<_, HeapError>(())
    })
    .unwrap();
    let guard = heap.guard();
    assert_eq!(root.by_name.load(&guard, "a"), Ok(None));
    assert_eq!((root.by_name.load_len(&guard), root.by_name.load_range(&guard, "a"..).count()), (Ok(0), 0));
    assert_eq!(heap.objects().count(), 3);
}
