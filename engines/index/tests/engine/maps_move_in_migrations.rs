//! A migration moves maps with their entries, gives their values another type, and frees those that are left behind.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::{CellValue, HeapError, Migrate, PBox, PCell, Persist, TypedHeap};
use lode_index::PMap;
use lode_pmem::Mapping;
use lode_testing::kv;
use std::sync::Arc;

lode_heap::brand!(Shop);

type Heap = TypedHeap<Shop, Arc<Mapping>>;

/// The program that made the pool.
mod before {
    use super::*;

    #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    pub(super) enum State {
        Free,
        Sold(u32),
    }

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Store {
        pub(super) states: PMap<u64, State, Shop>,
        pub(super) dropped: PMap<String, u64, Shop>,
        pub(super) kept: PMap<String, u64, Shop>,
        pub(super) shelf: PBox<Shelf, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Shelf {
        pub(super) map: PMap<u8, u8, Shop>,
        pub(super) gone: PCell<u8, Shop>,
    }
}

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
enum State {
    Free,
    Sold(u32),
    Lost,
}

#[derive(Persist)]
#[persist(brand = Shop, was = StoreV1)]
#[repr(C)]
struct Store {
    kept: PMap<String, u64, Shop>,
    states: PMap<u64, State, Shop>,
    shelf: PBox<Shelf, Shop>,
}

#[derive(Persist)]
#[persist(brand = Shop, name = "Store")]
#[repr(C)]
struct StoreV1 {
    states: PMap<u64, StateV1, Shop>,
    dropped: PMap<String, u64, Shop>,
    kept: PMap<String, u64, Shop>,
    shelf: PBox<Shelf, Shop>,
}

#[derive(CellValue, Clone, Copy)]
#[persist(name = "State")]
#[allow(dead_code, reason = "the values are read as those of the newer type")]
enum StateV1 {
    Free,
    Sold(u32),
}

#[derive(Persist)]
#[persist(brand = Shop, was = ShelfV1)]
#[repr(C)]
struct Shelf {
    more: PCell<u64, Shop>,
    map: PMap<u8, u8, Shop>,
}

#[derive(Persist)]
#[persist(brand = Shop, name = "Shelf")]
#[repr(C)]
struct ShelfV1 {
    map: PMap<u8, u8, Shop>,
    gone: PCell<u8, Shop>,
}

impl Migrate<StoreV1> for Store {
    fn migrate(old: StoreV1) -> Result<Store, HeapError> {
        Ok(Store { kept: old.kept, states: old.states.recast(), shelf: old.shelf })
    }
}

impl Migrate<ShelfV1> for Shelf {
    fn migrate(old: ShelfV1) -> Result<Shelf, HeapError> {
        Ok(Shelf { more: PCell::new(u64::from(old.gone.into_value()?)), map: old.map })
    }
}

#[test]
fn maps_keep_their_entries() {
    let heap = kv::create_empty(4 << 20, "shop");
    let medium = Arc::clone(heap.medium());
    let heap = Heap::new(heap);
    let old = heap
        .root_or_init(|_| {
            let [dropped, kept] = [PMap::new(), PMap::new()];
            Ok(before::Store { states: PMap::new(), dropped, kept, shelf: PBox::null() })
        })
        .unwrap();
    heap.run(|tx| {
        for number in 0..100 {
            old.states.insert(tx, number, before::State::Sold(number as u32))?;
            old.dropped.insert(tx, number.to_string(), number)?;
            old.kept.insert(tx, number.to_string(), number)?;
        }
        old.states.insert(tx, 7, before::State::Free)?;
        old.shelf.set(tx, tx.alloc(before::Shelf { map: PMap::new(), gone: PCell::new(3) })?)?;
        old.shelf.get(tx)?.unwrap().map.insert(tx, 1, 2)
    })
    .unwrap();
    let objects = heap.objects().count();
    heap.close().unwrap();

    let mut heap = Heap::new(kv::open(&medium, [5, 6]).unwrap());
    assert_eq!(heap.root::<Store>().map(drop), Err(HeapError::NotMigrated));
    let done = heap.migrate::<Store>(|_| ()).unwrap();
    assert_eq!((done.visited, done.converted), (5, 2));
    let store = heap.root::<Store>().unwrap().unwrap();
    // The root object of the map that was left behind, its 100 leaves and some nodes.
    assert!(objects - heap.objects().count() > 101);
    heap.run(|tx| {
        assert_eq!(store.states.insert(tx, 3, State::Lost)?, Some(State::Sold(3)));
        assert_eq!(store.states.get(tx, 7)?, Some(State::Free));
        assert_eq!((store.states.len(tx)?, store.kept.len(tx)?), (100, 100));
        assert_eq!(store.kept.get(tx, "42")?, Some(42));
        let shelf = store.shelf.get(tx)?.unwrap();
        assert_eq!((shelf.more.get(tx)?, shelf.map.first(tx)?), (3, Some((1, 2))));
        store.states.clear(tx)?;
        store.kept.clear(tx)?;
        store.shelf.take(tx).map(drop)
    })
    .unwrap();
    assert_eq!(heap.objects().count(), 3, "the root, the root object and its types");
}

/// A map with other keys or values is another type.
#[test]
fn maps_of_other_types_are_refused() {
    #[derive(Persist)]
    #[persist(brand = Shop, name = "Store")]
    #[repr(C)]
    struct Numbers {
        kept: PMap<u64, u32, Shop>,
    }
    #[derive(Persist)]
    #[persist(brand = Shop, name = "Store")]
    #[repr(C)]
    struct Names {
        kept: PMap<String, u32, Shop>,
    }
    #[derive(Persist)]
    #[persist(brand = Shop, name = "Store")]
    #[repr(C)]
    struct Longer {
        kept: PMap<u64, (u32, bool), Shop>,
    }
    let heap = kv::create_empty(1 << 20, "shop");
    let medium = Arc::clone(heap.medium());
    let heap = Heap::new(heap);
    heap.root_or_init(|_| Ok(Numbers { kept: PMap::new() })).unwrap();
    heap.close().unwrap();
    let heap = Heap::new(kv::open(&medium, [5, 6]).unwrap());
    let difference = |error: Option<HeapError>| match error {
        Some(HeapError::OtherTypes(difference)) => (difference.path.clone(), difference.to_string()),
        other => panic!("{other:?}"),
    };
    let (path, text) = difference(heap.root::<Names>().err());
    assert!(path == "Store" && text.contains("kept: PMap<String, u32>"), "{text}");
    let (path, text) = difference(heap.root::<Longer>().err());
    assert!(path == "Store" && text.contains("kept: PMap<u64, u32>"), "{text}");
    assert!(heap.root::<Numbers>().unwrap().is_some());
}
