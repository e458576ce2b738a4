//! Objects that become others in place: which ones do, and what is left free beside them.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::{Medium, Pool};
use lode_heap::{HeapError, Migrate, PBox, PCell, PVec, Persist, TypedHeap, raw_heap};
use lode_layout::{CHUNK, PoolOffset, SPAN_HEADER};
use lode_pmem::Medium as _;

lode_heap::brand!(Depot);
lode_heap::brand!(Fork);

mod before {
    use super::{Depot, Fork, PBox, PCell, PVec, Persist};

    #[derive(Persist)]
    #[persist(brand = Depot)]
    #[repr(C)]
    pub(super) struct Parcel {
        pub(super) number: u64,
        pub(super) grams: PCell<u32, Depot>,
        pub(super) next: PBox<Parcel, Depot>,
    }

    #[derive(Persist)]
    #[persist(brand = Depot)]
    #[repr(C)]
    pub(super) struct Root {
        pub(super) parcels: PVec<PBox<Parcel, Depot>, Depot>,
        pub(super) last: PBox<Parcel, Depot>,
    }

    #[derive(Persist)]
    #[persist(brand = Fork)]
    #[repr(C)]
    pub(super) struct Crate {
        pub(super) number: u64,
        pub(super) room: [u64; 100],
    }

    #[derive(Persist)]
    #[persist(brand = Fork)]
    #[repr(C)]
    pub(super) struct Stack {
        pub(super) crates: PVec<PBox<Crate, Fork>, Fork>,
    }

    #[derive(Persist)]
    #[persist(brand = Fork)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) number: u64,
    }

    #[derive(Persist)]
    #[persist(brand = Fork)]
    #[repr(C)]
    pub(super) struct Pair {
        pub(super) left: PBox<Item, Fork>,
        pub(super) right: PBox<Item, Fork>,
    }
}

/// A parcel with a field more, that has room in the block of one without.
#[derive(Persist)]
#[persist(brand = Depot, was = ParcelV1)]
#[repr(C)]
struct Parcel {
    number: u64,
    milligrams: PCell<u64, Depot>,
    is_sent: PCell<bool, Depot>,
    next: PBox<Parcel, Depot>,
}

#[derive(Persist)]
#[persist(brand = Depot, name = "Parcel")]
#[repr(C)]
struct ParcelV1 {
    number: u64,
    grams: PCell<u32, Depot>,
    next: PBox<Parcel, Depot>,
}

impl Migrate<ParcelV1> for Parcel {
    fn migrate(old: ParcelV1) -> Result<Parcel, HeapError> {
        let milligrams = PCell::new(1000 * u64::from(old.grams.into_value()?));
        let is_sent = PCell::new(old.number.is_multiple_of(2));
        Ok(Parcel { number: old.number, milligrams, is_sent, next: old.next })
    }
}

#[derive(Persist)]
#[persist(brand = Depot)]
#[repr(C)]
struct Root {
    parcels: PVec<PBox<Parcel, Depot>, Depot>,
    last: PBox<Parcel, Depot>,
}

type Heap = TypedHeap<Depot, Medium>;

fn parcel(number: u64) -> before::Parcel {
    before::Parcel { number, grams: PCell::new(number as u32 + 7), next: PBox::null() }
}

/// Makes a pool of `count` parcels in a vector, each of which has a second one, and removes every third of them.
fn fill(heap: &Heap, count: u64) {
    let root = heap.root_or_init(|_| Ok(before::Root { parcels: PVec::new(), last: PBox::null() })).unwrap();
    for number in 0..count {
        heap.run(|tx| {
            let new = tx.alloc(parcel(number))?;
            new.next.set(tx, tx.alloc(parcel(number + count))?)?;
            root.parcels.push(tx, new).map(drop)
        })
        .unwrap();
    }
    for index in (0..count).rev().filter(|number| number.is_multiple_of(3)) {
        heap.run(|tx| root.parcels.swap_remove(tx, index).map(drop)).unwrap();
    }
}

/// Returns the numbers of all parcels.
fn numbers(heap: &Heap) -> Vec<u64> {
    let root = heap.root::<Root>().unwrap().unwrap();
    let guard = heap.guard();
    let mut numbers = Vec::new();
    for first in root.parcels.load_all(&guard).unwrap() {
        let mut next = Some(first);
        while let Some(parcel) = next {
            assert_eq!(parcel.milligrams.load(&guard), Ok(1000 * (parcel.number + 7)));
            assert_eq!(parcel.is_sent.load(&guard), Ok(parcel.number.is_multiple_of(2)));
            numbers.push(parcel.number);
            next = parcel.next.load(&guard).unwrap();
        }
    }
    numbers.sort_unstable();
    numbers
}

/// Returns the offsets of the objects with a type number.
fn objects_of(heap: &Heap, type_number: u64) -> Vec<PoolOffset> {
    let objects = heap.objects().map(Result::unwrap);
    objects.filter(|object| object.type_number == type_number).map(|object| object.at).collect()
}

const OLD: u64 = <before::Parcel as Persist<Depot>>::TYPE_NUMBER;
const NEW: u64 = <Parcel as Persist<Depot>>::TYPE_NUMBER;

#[test]
fn objects_that_fit_stay_where_they_are() {
    const COUNT: u64 = 600;
    // Opened again, and with free blocks in the thread's magazine.
    for is_opened in [true, false] {
        let mut pool = Pool::new(1 << 20);
        let mut heap = pool.typed();
        fill(&heap, COUNT);
        if is_opened {
            drop(heap);
            heap = pool.typed();
        }
        let superblocks = heap.stats().unwrap().classes[1].superblocks;
        let parcels = objects_of(&heap, OLD);
        assert_eq!(parcels.len() as u64, 2 * (COUNT - COUNT / 3));
        assert_eq!(heap.migrate::<Root>(|_| ()).unwrap().converted, parcels.len() as u64);
        assert!(objects_of(&heap, NEW) == parcels && objects_of(&heap, OLD).is_empty());
        let left = (0..2 * COUNT).filter(|number| !(number % COUNT).is_multiple_of(3));
        assert_eq!(numbers(&heap), left.collect::<Vec<_>>());

        // What is free beside them is free for objects of the new type.
        let root = heap.root::<Root>().unwrap().unwrap();
        let new = |number| Parcel {
            number,
            milligrams: PCell::new(1000 * (number + 7)),
            is_sent: PCell::new(number.is_multiple_of(2)),
            next: PBox::null(),
        };
        for number in (0..2 * COUNT).filter(|number| (number % COUNT).is_multiple_of(3)) {
            heap.run(|tx| root.parcels.push(tx, tx.alloc(new(number))?).map(drop)).unwrap();
        }
        assert_eq!(numbers(&heap), (0..2 * COUNT).collect::<Vec<_>>());
        assert_eq!(heap.stats().unwrap().classes[1].superblocks, superblocks);
    }
}

/// An object that no pointer leads to has no owner who could say what it is: its superblock keeps its type.
#[test]
fn lost_objects_are_not_converted() {
    let mut pool = Pool::new(1 << 20);
    let mut heap = pool.typed();
    fill(&heap, 30);
    let lost = raw_heap(&heap).run(|tx| tx.alloc_with(&[u64::MAX; 3], 8, OLD)).unwrap();
    assert_eq!(heap.migrate::<Root>(|_| ()).unwrap().converted, 40);
    assert_eq!((objects_of(&heap, OLD), objects_of(&heap, NEW).len()), (vec![lost], 40));
    let bytes = |at: PoolOffset| raw_heap(&heap).run(|tx| Ok::<_, HeapError>(tx.load8(at))).unwrap();
    assert_eq!([0, 8, 16].map(|offset| bytes(lost.plus(offset))), [u64::MAX; 3]);
    assert_eq!(
        numbers(&heap),
        (0..60_u64).filter(|number| !(number % 30).is_multiple_of(3)).collect::<Vec<_>>()
    );
}

/// Two pointers to one object are damage. It is found before the object is changed.
#[test]
fn object_with_two_owners_is_left_as_it_is() {
    let mut pool = Pool::new(1 << 20);
    let mut heap = pool.typed();
    fill(&heap, 6);
    let root = heap.root::<before::Root>().unwrap().unwrap();
    let memory = raw_heap(&heap).memory();
    let word = |of: &PBox<before::Parcel, Depot>| memory.offset_of(std::ptr::from_ref(of).cast());
    heap.run(|tx| {
        let first = root.parcels.get(tx, 0)?.unwrap();
        let (from, to) = (word(&first.next), word(&root.last));
        raw_heap(&heap).run(|tx| {
            tx.store8(to, tx.load8(from));
            Ok(())
        })
    })
    .unwrap();
    let before = objects_of(&heap, OLD);
    let error = heap.migrate::<Root>(|_| ()).unwrap_err();
    assert!(error.is_damage(), "{error}");
    assert_eq!(objects_of(&heap, OLD), before);
}

/// One type became two: the pointer says which.
#[test]
fn types_that_divide_are_told_apart_by_their_pointers() {
    mod after {
        use super::{Fork, HeapError, Migrate, PBox, Persist};

        #[derive(Persist)]
        #[persist(brand = Fork, name = "Item")]
        #[repr(C)]
        pub(super) struct ItemV1 {
            number: u64,
        }

        #[derive(Persist)]
        #[persist(brand = Fork, name = "Item", was = ItemV1)]
        #[repr(C)]
        pub(super) struct Left {
            pub(super) number: u64,
            pub(super) left: u64,
        }

        #[derive(Persist)]
        #[persist(brand = Fork, name = "Item", was = ItemV1)]
        #[repr(C)]
        pub(super) struct Right {
            pub(super) right: u64,
            pub(super) number: u64,
        }

        impl Migrate<ItemV1> for Left {
            fn migrate(old: ItemV1) -> Result<Left, HeapError> {
                Ok(Left { number: old.number, left: 1 })
            }
        }

        impl Migrate<ItemV1> for Right {
            fn migrate(old: ItemV1) -> Result<Right, HeapError> {
                Ok(Right { number: old.number, right: 2 })
            }
        }

        #[derive(Persist)]
        #[persist(brand = Fork)]
        #[repr(C)]
        pub(super) struct Pair {
            pub(super) left: PBox<Left, Fork>,
            pub(super) right: PBox<Right, Fork>,
        }
    }
    let mut pool = Pool::new(1 << 20);
    let mut heap = pool.typed::<Fork>();
    let root = heap.root_or_init(|_| Ok(before::Pair { left: PBox::null(), right: PBox::null() })).unwrap();
    heap.run(|tx| {
        root.left.set(tx, tx.alloc(before::Item { number: 10 })?)?;
        root.right.set(tx, tx.alloc(before::Item { number: 20 })?)
    })
    .unwrap();
    assert_eq!(heap.migrate::<after::Pair>(|_| ()).unwrap().converted, 2);
    let root = heap.root::<after::Pair>().unwrap().unwrap();
    let guard = heap.guard();
    let (left, right) = (root.left.load(&guard).unwrap().unwrap(), root.right.load(&guard).unwrap().unwrap());
    assert_eq!((left.number, left.left, right.number, right.right), (10, 1, 20, 2));
}

/// Objects that become much smaller move to smaller blocks, which leaves the space to others.
#[test]
fn objects_that_shrink_give_space_back() {
    mod after {
        use super::{Fork, HeapError, Migrate, PBox, PVec, Persist};

        #[derive(Persist)]
        #[persist(brand = Fork, name = "Crate")]
        #[repr(C)]
        pub(super) struct CrateV1 {
            number: u64,
            room: [u64; 100],
        }

        #[derive(Persist)]
        #[persist(brand = Fork, was = CrateV1)]
        #[repr(C)]
        pub(super) struct Crate {
            pub(super) number: u64,
        }

        impl Migrate<CrateV1> for Crate {
            fn migrate(old: CrateV1) -> Result<Crate, HeapError> {
                Ok(Crate { number: old.number + old.room[99] })
            }
        }

        #[derive(Persist)]
        #[persist(brand = Fork)]
        #[repr(C)]
        pub(super) struct Stack {
            pub(super) crates: PVec<PBox<Crate, Fork>, Fork>,
        }
    }
    let mut pool = Pool::new(1 << 20);
    let mut heap = pool.typed::<Fork>();
    let root = heap.root_or_init(|_| Ok(before::Stack { crates: PVec::new() })).unwrap();
    for number in 0..400 {
        let new = || before::Crate { number, room: [1000; 100] };
        heap.run(|tx| root.crates.push(tx, tx.alloc(new())?).map(drop)).unwrap();
    }
    assert_eq!(heap.migrate::<after::Stack>(|_| ()).unwrap().converted, 400);
    let root = heap.root::<after::Stack>().unwrap().unwrap();
    let guard = heap.guard();
    let crates = root.crates.load_all(&guard).unwrap();
    assert!(crates.iter().map(|new| new.number).eq(1000..1400));
    let number = <after::Crate as Persist<Fork>>::TYPE_NUMBER;
    let of_type = heap.objects().map(Result::unwrap).filter(|object| object.type_number == number);
    assert!(of_type.map(|object| object.size).eq([16; 400]));
}

/// A damaged word of a bitmap that has no bits of the objects stops nothing: they move.
#[test]
fn objects_under_a_damaged_bitmap_move() {
    let mut pool = Pool::new(1 << 20);
    fill(&pool.typed(), 60);
    let mut heap = pool.typed();
    let parcels = objects_of(&heap, OLD);
    let start = parcels[0].get() / CHUNK * CHUNK;
    let last_word = PoolOffset::new(start + SPAN_HEADER + (CHUNK / 32).div_ceil(48) * 8 - 8);
    pool.medium().store8(last_word, 1);
    assert_eq!(heap.migrate::<Root>(|_| ()).unwrap().converted, parcels.len() as u64);
    assert_eq!(numbers(&heap).len(), parcels.len());
}
