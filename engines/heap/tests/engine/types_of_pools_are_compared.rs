//! A pool says which types it holds, and a program with other types is refused: it would read garbage, and store it.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::Pool;
use lode_heap::{
    CellValue, HeapError, PBox, PCell, PDeque, PMutex, PString, PVec, Persist, TypedDamage, TypedHeap,
    TypedPlace, TypedSurvey, TypedVisitor,
};
use lode_pmem::Medium;
use std::collections::HashSet;

lode_heap::brand!(Shop);

/// The program as it was.
mod before {
    use super::*;

    #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    pub(super) enum State {
        Free,
        Reserved { by: u32, until: Option<u64> },
        Sold((u16, bool)),
    }

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) name: PString<Shop>,
        pub(super) state: PCell<State, Shop>,
        pub(super) next: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = B)]
    #[repr(C)]
    pub(super) struct List<T, B, const N: usize> {
        pub(super) first: PBox<T, B>,
        pub(super) ends: [PBox<T, B>; N],
    }

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Root {
        pub(super) items: PMutex<List<Item, Shop, 2>, Shop>,
        pub(super) years: PVec<u16, Shop>,
        pub(super) wishes: PDeque<char, Shop>,
        pub(super) place: [u8; 4],
    }
}

/// The program after a field of the items was added, behind a pointer: the root's own layout is the same.
mod after {
    use super::*;
    pub(super) use before::List;

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) name: PString<Shop>,
        pub(super) state: PCell<before::State, Shop>,
        pub(super) sold: PCell<u64, Shop>,
        pub(super) next: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Root {
        items: PMutex<List<Item, Shop, 2>, Shop>,
        years: PVec<u16, Shop>,
        wishes: PDeque<char, Shop>,
        place: [u8; 4],
    }
}

/// The program after a variant got another field.
mod other_state {
    use super::*;
    pub(super) use before::List;

    #[derive(CellValue, Clone, Copy)]
    #[allow(dead_code, reason = "its layout alone counts")]
    pub(super) enum State {
        Free,
        Reserved { by: u32, until: Option<u64> },
        Sold((bool, u16)),
    }

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Item {
        name: PString<Shop>,
        state: PCell<State, Shop>,
        next: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Root {
        items: PMutex<List<Item, Shop, 2>, Shop>,
        years: PVec<u16, Shop>,
        wishes: PDeque<char, Shop>,
        place: [u8; 4],
    }
}

fn root() -> before::Root {
    let list = before::List { first: PBox::null(), ends: [PBox::null(), PBox::null()] };
    before::Root { items: PMutex::new(list), years: PVec::new(), wishes: PDeque::new(), place: *b"cove" }
}

/// Fills the shop: three items in a list, one at an end.
fn fill<M: Medium>(heap: &TypedHeap<Shop, M>) {
    let root = heap.root_or_init(|_| Ok(root())).unwrap();
    heap.run(|tx| {
        let items = root.items.lock(tx)?;
        for (index, name) in ["ore", "lode", "stone"].into_iter().enumerate() {
            let state = match index {
                0 => before::State::Sold((7, true)),
                1 => before::State::Reserved { by: 1, until: None },
                _ => before::State::Free,
            };
            let item = before::Item { name: PString::new(), state: PCell::new(state), next: PBox::null() };
            let item = tx.alloc(item)?;
            item.name.set(tx, name)?;
            if let Some(next) = items.first.take(tx)? {
                item.next.set(tx, next)?;
            }
            items.first.set(tx, item)?;
        }
        let state = PCell::new(before::State::Free);
        items.ends[1].set(tx, tx.alloc(before::Item { name: PString::new(), state, next: PBox::null() })?)?;
        root.years.extend_from_slice(tx, &[1901, 1902])?;
        root.wishes.push_back(tx, 'é')
    })
    .unwrap();
}

#[test]
fn changed_types_are_refused_with_both_layouts() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Shop>();
    fill(&heap);
    let refused = |error: HeapError, want: &[&str]| {
        let HeapError::OtherTypes(difference) = &error else { panic!("{error}") };
        let text = format!("{} {error}", difference.path);
        want.iter().for_each(|want| assert!(text.contains(want), "{want} is not in\n{text}"));
    };
    assert_eq!(<after::Root as Persist<Shop>>::TYPE_NUMBER, <before::Root as Persist<Shop>>::TYPE_NUMBER);
    let added = ["Root.items.first ", "Item, in the pool", "sold: PCell<u64>", "<- differs"];
    refused(heap.root::<after::Root>().map(drop).unwrap_err(), &added);
    let init = || -> Result<after::Root, HeapError> { panic!("there is a root") };
    refused(heap.root_or_init(|_| init()).map(drop).unwrap_err(), &added);
    refused(heap.run(|tx| tx.root::<after::Root>().map(drop)).unwrap_err(), &added);
    let changed = ["Root.items.first.state ", "0: (u16, bool)", "0: (bool, u16)"];
    refused(heap.root::<other_state::Root>().map(drop).unwrap_err(), &changed);
    // Of no effect: the right program goes on, in the same process and later.
    assert!(heap.root::<before::Root>().unwrap().is_some());
    assert!(heap.root::<after::Root>().is_err());
    drop(heap);
    let heap = pool.typed::<Shop>();
    refused(heap.root::<after::Root>().map(drop).unwrap_err(), &added);
    assert!(heap.root::<before::Root>().unwrap().is_some());
}

/// Collects what a survey finds, as text.
#[derive(Default)]
struct Listing {
    lines: Vec<String>,
    seen: HashSet<u64>,
}

impl TypedVisitor for Listing {
    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        self.seen.insert(place.at().get())
    }

    fn value(&mut self, place: &TypedPlace<'_>, text: &dyn Fn() -> String) {
        self.lines.push(format!("{} {}", place.path(), text()));
    }

    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage) {
        panic!("{}: {damage:?}", place.path());
    }
}

#[test]
fn pools_are_read_without_the_program() {
    let mut pool = Pool::new(1 << 20);
    fill(&pool.typed::<Shop>());
    let heap = pool.heap();
    let mut survey = TypedSurvey::open(&heap).unwrap().unwrap();
    let mut listing = Listing::default();
    survey.visit(&mut listing);
    let want = [
        "Root.years[0] 1901",
        "Root.years[1] 1902",
        "Root.wishes[0] 'é'",
        "Root.place [99, 111, 118, 101]",
        "Root.items.first.name \"stone\"",
        "Root.items.first.state Free",
        "Root.items.first.next.name \"lode\"",
        "Root.items.first.next.state Reserved { by: 1, until: None }",
        "Root.items.first.next{2}.name \"ore\"",
        "Root.items.first.next{2}.state Sold((7, true))",
        "Root.items.ends[1].name \"\"",
        "Root.items.ends[1].state Free",
    ];
    assert_eq!(listing.lines, want);
    // Four items, three texts, two buffers, the root.
    assert_eq!(listing.seen.len(), 10);
    assert_eq!(heap.objects().count(), 12);
    let names: Vec<String> = survey
        .table()
        .types()
        .map(|(id, _)| survey.table().name(id))
        .filter(|name| name.contains('<'))
        .collect();
    assert!(names.contains(&"List<Item, 2>".to_owned()), "{names:?}");
}

#[test]
fn pools_without_typed_data_are_refused() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.heap();
    assert!(TypedSurvey::open(&heap).unwrap().is_none());
    let at = heap
        .run(|tx| {
            let at = tx.alloc_zeroed(100, 16, 9)?;
            tx.set_root(at);
            Ok::<_, HeapError>(at)
        })
        .unwrap();
    assert_eq!(TypedSurvey::open(&heap).map(drop), Err(HeapError::NotTyped { at, found: 9 }));
    drop(heap);
    let heap = pool.typed::<Shop>();
    assert_eq!(heap.root::<before::Root>().map(drop), Err(HeapError::NotTyped { at, found: 9 }));
}
