//! A damaged map is found by a check, and is an error or a sound part of the map where it is used: no panic, and no store elsewhere.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_fsck::check_pool;
use lode_heap::check::{Report, Severity};
use lode_heap::{
    CellValue, Heap as RawHeap, HeapError, PBox, Persist, TypedDamage, TypedHeap, TypedPlace, TypedVisitor,
};
use lode_index::{PMap, StoreLayout, visit_map};
use lode_layout::PoolOffset;
use lode_pmem::{Mapping, Medium as _};
use lode_testing::{kv, memory};
use std::collections::BTreeMap;
use std::sync::Arc;

lode_heap::brand!(Shop);

type Heap = TypedHeap<Shop, Arc<Mapping>>;

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
struct Item {
    cents: u16,
    fresh: bool,
}

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Store {
    stock: PMap<String, Item, Shop>,
    shelf: PBox<Shelf, Shop>,
}

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Shelf {
    seats: PMap<(u8, Vec<u8>), u64, Shop>,
}

fn item(number: u64) -> Item {
    Item { cents: number as u16, fresh: number.is_multiple_of(2) }
}

/// Makes a pool with two maps, in which all kinds of nodes are.
fn pool() -> Arc<Mapping> {
    let heap = kv::create_empty(1 << 20, "shop");
    let medium = Arc::clone(heap.medium());
    let heap = Heap::new(heap);
    let store = heap.root_or_init(|_| Ok(Store { stock: PMap::new(), shelf: PBox::null() })).unwrap();
    heap.run(|tx| {
        for number in 0..40 {
            store.stock.insert(tx, format!("item {number}"), item(number))?;
        }
        store.shelf.set(tx, tx.alloc(Shelf { seats: PMap::new() })?)?;
        let seats = &store.shelf.get(tx)?.unwrap().seats;
        for number in 0..70 {
            seats.insert(tx, (number as u8 * 3, vec![b'x'; number as usize % 3]), number)?;
        }
        Ok::<_, HeapError>(())
    })
    .unwrap();
    heap.close().unwrap();
    medium
}

fn check(medium: &Arc<Mapping>) -> Report {
    check_pool(Arc::new(memory::from_bytes(&memory::bytes(medium))), &[&StoreLayout])
}

/// Collects the values and damages of a survey.
#[derive(Default)]
struct Found {
    values: BTreeMap<String, String>,
    damages: Vec<(String, TypedDamage)>,
    objects: Vec<PoolOffset>,
}

impl TypedVisitor for Found {
    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        let is_new = !self.objects.contains(&place.at());
        self.objects.push(place.at());
        is_new
    }

    fn value(&mut self, place: &TypedPlace<'_>, text: &dyn Fn() -> String) {
        self.values.insert(place.path(), text());
    }

    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage) {
        self.damages.push((place.path(), damage));
    }
}

fn survey(heap: &RawHeap<Arc<Mapping>>) -> Found {
    let mut found = Found::default();
    let survey = lode_heap::TypedSurvey::open(heap).unwrap().unwrap();
    survey.with_maps(visit_map).visit(&mut found);
    found
}

#[test]
fn entries_are_named_by_their_keys() {
    let medium = pool();
    let report = check(&medium);
    assert!(report.is_clean() && report.traced, "{report}");
    assert_eq!(report.counts.reached, report.counts.objects);
    let heap = kv::open(&medium, [7, 7]).unwrap();
    let Found { values, damages, objects } = survey(&heap);
    assert_eq!(damages, []);
    assert_eq!(objects.len() as u64 + 2, report.counts.objects);
    assert_eq!(values.len(), 110);
    assert_eq!(values["Store.stock[\"item 7\"]"], "Item { cents: 7, fresh: false }");
    assert_eq!(values["Store.shelf.seats[(9, b\"\")]"], "3");
    assert_eq!(values["Store.shelf.seats[(15, b\"xx\")]"], "5");
}

/// A program that does not know maps finds no leak in them.
#[test]
fn unknown_maps_are_not_traced() {
    let medium = pool();
    let report = check_pool(Arc::new(memory::from_bytes(&memory::bytes(&medium))), &[]);
    assert!(!report.traced && report.worst() == Some(Severity::Note), "{report}");
}

/// Uses the maps in every way. Errors do not count, and a right result is not expected.
fn use_all(heap: &Heap) {
    let Ok(Some(store)) = heap.root::<Store>() else { return };
    {
        let guard = heap.guard();
        let _ = (store.stock.load(&guard, "item 7"), store.stock.load_len(&guard));
        assert!(store.stock.load_range(&guard, ..).take(500).count() < 500);
        assert!(store.stock.load_range(&guard, "item 3"..).rev().take(500).count() < 500);
        if let Ok(Some(shelf)) = store.shelf.load(&guard) {
            let _ = shelf.seats.load(&guard, (9, *b""));
        }
    }
    let _ = heap.run(|tx| store.stock.get(tx, "item 12"));
    let _ = heap.run(|tx| store.stock.insert(tx, "item 12", item(1)));
    let _ = heap.run(|tx| store.stock.insert(tx, "item 120", item(1)));
    let _ = heap.run(|tx| store.stock.remove(tx, "item 13"));
    let _ = heap.run(|tx| store.stock.last(tx));
    let _ = heap.run(|tx| store.shelf.take(tx).map(drop));
    let _ = heap.run(|tx| store.stock.clear(tx));
}

#[test]
fn flipped_bits_of_maps_are_found() {
    let sound = memory::bytes(&pool());
    let medium = Arc::new(memory::from_bytes(&sound));
    let heap = kv::open(&medium, [7, 7]).unwrap();
    let objects: Vec<(PoolOffset, u64)> =
        heap.objects().map(Result::unwrap).map(|object| (object.at, object.size)).collect();
    let types = lode_heap::TypedSurvey::open(&heap).unwrap().unwrap().frame()[1];
    drop(heap);
    let mut random = fastrand::Rng::with_seed(3);
    for (at, size) in objects.into_iter().filter(|(at, _)| *at != types) {
        for word in 0..size / 8 {
            let mut bytes = sound.clone();
            let bit = random.u64(..64);
            bytes[(at.get() + word * 8 + bit / 8) as usize] ^= 1 << (bit % 8);
            let medium = Arc::new(memory::from_bytes(&bytes));
            let report = check(&medium);
            // Space after the end of an object has no content.
            let is_used = || {
                let heap = kv::open(&medium, [7, 7]).unwrap();
                !survey(&heap).damages.is_empty()
            };
            assert!(report.worst() == Some(Severity::Damage) || !is_used(), "{at} {word} {bit}: {report}");
            let Ok(heap) = kv::open(&medium, [7, 8]) else { continue };
            use_all(&Heap::new(heap));
        }
    }
}

/// A leaf with a right checksum, whose bytes are no key and no value of the types.
#[test]
fn entries_of_other_types_are_found() {
    #[derive(Persist)]
    #[persist(brand = Shop, type_number = 7)]
    #[repr(C)]
    struct Written {
        map_whose_name_is_so_long_that_the_table_of_its_types_is_not_shorter_than_that_of_the_others_in_its_place:
            PMap<Vec<u8>, [u8; 3], Shop>,
    }
    #[derive(Persist)]
    #[persist(brand = Shop, type_number = 7)]
    #[repr(C)]
    struct Read {
        map: PMap<String, Item, Shop>,
    }
    let medium = {
        let heap = kv::create_empty(1 << 20, "shop");
        let medium = Arc::clone(heap.medium());
        let heap = Heap::new(heap);
        let written = heap.root_or_init(|_| Ok(Written { map_whose_name_is_so_long_that_the_table_of_its_types_is_not_shorter_than_that_of_the_others_in_its_place: PMap::new() })).unwrap();
        let map = &written.map_whose_name_is_so_long_that_the_table_of_its_types_is_not_shorter_than_that_of_the_others_in_its_place;
        heap.run(|tx| {
            map.insert(tx, b"good", [1, 0, 1])?;
            map.insert(tx, b"value", [1, 0, 9])?;
            map.insert(tx, b"\xFF", [1, 0, 1])
        })
        .unwrap();
        // A table with the other types takes the place of the first.
        let other = Heap::new(kv::create_empty(1 << 20, "shop"));
        other.root_or_init(|_| Ok(Read { map: PMap::new() })).unwrap();
        let table_of = |heap: &Heap| heap.survey().unwrap().unwrap().table().encode().unwrap();
        let (table, at) = (table_of(&other), heap.survey().unwrap().unwrap().frame()[1]);
        assert!(
            table.len() as u64
                <= heap.objects().map(Result::unwrap).find(|found| found.at == at).unwrap().size
        );
        heap.close().unwrap();
        for (index, word) in (0..).zip(table.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            medium.store8(at.plus(index * 8), u64::from_le_bytes(bytes));
        }
        medium
    };
    let report = check(&medium);
    assert_eq!(report.findings.len(), 2, "{report}");
    assert!(report.to_string().contains("Read.map[\"value\"]"), "{report}");
    let heap = Heap::new(kv::open(&medium, [7, 8]).unwrap());
    let read = heap.root::<Read>().unwrap().unwrap();
    let is_invalid = |result: Result<Option<Item>, HeapError>| {
        assert!(matches!(result, Err(HeapError::InvalidValue { name: "Item", .. })), "{result:?}");
    };
    let guard = heap.guard();
    assert_eq!(read.map.load(&guard, "good"), Ok(Some(Item { cents: 1, fresh: true })));
    is_invalid(read.map.load(&guard, "value"));
    let entries: Vec<_> = read.map.load_range(&guard, ..).map(|entry| entry.is_ok()).collect();
    assert_eq!(entries, [true, false, false]);
    drop(guard);
    is_invalid(heap.run(|tx| read.map.get(tx, "value")));
    is_invalid(heap.run(|tx| read.map.insert(tx, "value", item(1))));
    is_invalid(heap.run(|tx| read.map.remove(tx, "value")));
    assert_eq!(heap.run(|tx| read.map.contains(tx, "value")), Ok(true));
    assert_eq!(heap.run(|tx| read.map.clear(tx)), Ok(()));
    assert_eq!(heap.objects().count(), 3);
}
