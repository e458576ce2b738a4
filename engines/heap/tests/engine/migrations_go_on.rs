//! Pools of older programs are migrated, also when the migration stops at any moment, and no program uses a pool half-way.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::{Medium, Pool};
use lode_heap::{
    CellValue, HeapError, Migrate, PBox, PCell, PDeque, PMutex, PString, PVec, Persist, TypedHeap,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

lode_heap::brand!(Shop);

/// The first program.
mod first {
    use super::*;

    #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    pub(super) enum Kind {
        Ore,
        Gem,
    }

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) number: u64,
        pub(super) euros: PCell<u32, Shop>,
        pub(super) name: PString<Shop>,
        pub(super) notes: PBox<Item, Shop>,
        pub(super) next: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Root {
        pub(super) first: PBox<Item, Shop>,
        pub(super) pair: PBox<[PMutex<Item, Shop>; 2], Shop>,
        pub(super) kinds: PVec<Kind, Shop>,
        pub(super) queue: PDeque<u32, Shop>,
    }
}

/// The second one: prices in cents, and no notes.
mod second {
    use super::*;

    #[derive(Persist)]
    #[persist(brand = Shop, was = ItemV1)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) name: PString<Shop>,
        pub(super) cents: PCell<u64, Shop>,
        pub(super) number: u64,
        pub(super) next: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop, name = "Item")]
    #[repr(C)]
    pub(super) struct ItemV1 {
        number: u64,
        euros: PCell<u32, Shop>,
        name: PString<Shop>,
        notes: PBox<Item, Shop>,
        next: PBox<Item, Shop>,
    }

    impl Migrate<ItemV1> for Item {
        fn migrate(old: ItemV1) -> Result<Item, HeapError> {
            let cents = PCell::new(u64::from(old.euros.into_value()?) * 100);
            Ok(Item { name: old.name, cents, number: old.number, next: old.next })
        }
    }

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Root {
        pub(super) first: PBox<Item, Shop>,
        pub(super) pair: PBox<[PMutex<Item, Shop>; 2], Shop>,
        pub(super) kinds: PVec<first::Kind, Shop>,
        pub(super) queue: PDeque<u32, Shop>,
    }
}

/// The third one: a kind more, a total, and items with a flag.
mod third {
    use super::*;

    #[derive(CellValue, Clone, Copy, Debug, PartialEq)]
    pub(super) enum Kind {
        Ore,
        Gem,
        Fossil,
    }

    #[derive(Persist)]
    #[persist(brand = Shop, was = ItemV2)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) name: PString<Shop>,
        pub(super) cents: PCell<u64, Shop>,
        pub(super) number: u64,
        pub(super) sold: PCell<bool, Shop>,
        pub(super) next: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop, name = "Item", was = ItemV1)]
    #[repr(C)]
    pub(super) struct ItemV2 {
        name: PString<Shop>,
        cents: PCell<u64, Shop>,
        number: u64,
        next: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop, name = "Item")]
    #[repr(C)]
    pub(super) struct ItemV1 {
        number: u64,
        euros: PCell<u32, Shop>,
        name: PString<Shop>,
        notes: PBox<Item, Shop>,
        next: PBox<Item, Shop>,
    }

    impl Migrate<ItemV1> for ItemV2 {
        fn migrate(old: ItemV1) -> Result<ItemV2, HeapError> {
            let cents = PCell::new(u64::from(old.euros.into_value()?) * 100);
            Ok(ItemV2 { name: old.name, cents, number: old.number, next: old.next })
        }
    }

    impl Migrate<ItemV2> for Item {
        fn migrate(old: ItemV2) -> Result<Item, HeapError> {
            let ItemV2 { name, cents, number, next } = old;
            if number == u64::MAX {
                return Err(HeapError::not_converted("an item without a number"));
            }
            Ok(Item { name, cents, number, sold: PCell::new(number % 2 == 1), next })
        }
    }

    #[derive(Persist)]
    #[persist(brand = Shop, was = RootV2)]
    #[repr(C)]
    pub(super) struct Root {
        pub(super) total: PCell<u64, Shop>,
        pub(super) kinds: PVec<Kind, Shop>,
        pub(super) queue: PDeque<i32, Shop>,
        pub(super) first: PBox<Item, Shop>,
        pub(super) pair: PBox<[PMutex<Item, Shop>; 2], Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop, name = "Root")]
    #[repr(C)]
    pub(super) struct RootV2 {
        first: PBox<Item, Shop>,
        pair: PBox<[PMutex<Item, Shop>; 2], Shop>,
        kinds: PVec<first::Kind, Shop>,
        queue: PDeque<u32, Shop>,
    }

    impl Migrate<RootV2> for Root {
        fn migrate(old: RootV2) -> Result<Root, HeapError> {
            let RootV2 { first, pair, kinds, queue } = old;
            Ok(Root { total: PCell::new(7), kinds: kinds.recast(), queue: queue.recast(), first, pair })
        }
    }
}

type Heap = TypedHeap<Shop, Medium>;
type FirstRoot = PMutex<first::Root, Shop>;
type SecondRoot = PMutex<second::Root, Shop>;
type ThirdRoot = PMutex<third::Root, Shop>;

fn item(number: u64) -> first::Item {
    let euros = PCell::new(number as u32);
    first::Item { number, euros, name: PString::new(), notes: PBox::null(), next: PBox::null() }
}

/// Makes a pool of the first program: a list of `count` items, each with a note and a note of that; two items more in a pair.
fn fill(heap: &Heap, count: u64) {
    let root =
        || first::Root { first: PBox::null(), pair: PBox::null(), kinds: PVec::new(), queue: PDeque::new() };
    let root = heap.root_or_init(|_| Ok(PMutex::new(root()))).unwrap();
    for number in 0..count {
        heap.run(|tx| {
            let root = root.lock(tx)?;
            let new = tx.alloc(item(number))?;
            new.name.set(tx, &format!("item {number}"))?;
            let note = tx.alloc(item(1000 + number))?;
            note.notes.set(tx, tx.alloc(item(2000 + number))?)?;
            note.name.set(tx, "a note")?;
            new.notes.set(tx, note)?;
            if let Some(next) = root.first.take(tx)? {
                new.next.set(tx, next)?;
            }
            root.first.set(tx, new)
        })
        .unwrap();
    }
    heap.run(|tx| {
        let root = root.lock(tx)?;
        root.pair.set(tx, tx.alloc([PMutex::new(item(501)), PMutex::new(item(502))])?)?;
        let pair = root.pair.get(tx)?.unwrap();
        pair[1].lock(tx)?.name.set(tx, "the second")?;
        pair[0].lock(tx)?.notes.set(tx, tx.alloc(item(503))?)?;
        root.kinds.extend_from_slice(tx, &[first::Kind::Gem, first::Kind::Ore])?;
        (1..=6).try_for_each(|number| root.queue.push_back(tx, number))?;
        root.queue.pop_front(tx).map(drop)
    })
    .unwrap();
}

/// Compares the pool of the second program with what the first one stored.
fn check_second(heap: &Heap, count: u64) {
    let root = heap.root::<SecondRoot>().unwrap().unwrap();
    let guard = heap.guard();
    root.read(&guard, |root| {
        let mut next = root.first.load(&guard).unwrap();
        for number in (0..count).rev() {
            let item = next.unwrap();
            assert_eq!((item.number, item.cents.load(&guard)), (number, Ok(100 * number)));
            assert_eq!(item.name.load(&guard).unwrap(), format!("item {number}"));
            next = item.next.load(&guard).unwrap();
        }
        assert!(next.is_none());
        let pair = root.pair.load(&guard).unwrap().unwrap();
        pair[1].read(&guard, |item| {
            assert_eq!((item.number, item.name.load(&guard)?), (502, "the second".into()));
            Ok(())
        })?;
        assert_eq!(root.kinds.load_all(&guard)?, [first::Kind::Gem, first::Kind::Ore]);
        Ok(())
    })
    .unwrap();
    drop(guard);
    // An item and its name each; the pair and a name; two buffers; the root, the root object and its types. The notes are gone.
    assert_eq!(heap.objects().count() as u64, 2 * count + 7);
    check(heap);
}

/// Compares the pool of the third program with what the first one stored.
fn check_third(heap: &Heap, count: u64) {
    let root = heap.root::<ThirdRoot>().unwrap().unwrap();
    let guard = heap.guard();
    root.read(&guard, |root| {
        let mut next = root.first.load(&guard).unwrap();
        for number in (0..count).rev() {
            let item = next.unwrap();
            let sold = item.sold.load(&guard).unwrap();
            assert_eq!(
                (item.number, item.cents.load(&guard), sold),
                (number, Ok(100 * number), number % 2 == 1)
            );
            assert_eq!(item.name.load(&guard).unwrap(), format!("item {number}"));
            next = item.next.load(&guard).unwrap();
        }
        assert!(next.is_none());
        let pair = root.pair.load(&guard).unwrap().unwrap();
        let item = pair[0].read(&guard, |item| Ok((item.number, item.sold.load(&guard)?)))?;
        assert_eq!(item, (501, true));
        assert_eq!(root.kinds.load_all(&guard)?, [third::Kind::Gem, third::Kind::Ore]);
        assert_eq!(root.queue.load_all(&guard)?, [2, 3, 4, 5, 6]);
        assert_eq!(root.total.load(&guard)?, 7);
        Ok(())
    })
    .unwrap();
    drop(guard);
    assert_eq!(heap.objects().count() as u64, 2 * count + 7);
    check(heap);
}

/// Reads the whole pool by its table of types: nothing is of another type.
fn check(heap: &Heap) {
    struct Sound;
    impl lode_heap::TypedVisitor for Sound {
        fn object(&mut self, _: &lode_heap::TypedPlace<'_>) -> bool {
            true
        }
        fn damage(&mut self, place: &lode_heap::TypedPlace<'_>, damage: lode_heap::TypedDamage) {
            panic!("{}: {damage:?}", place.path());
        }
    }
    heap.survey().unwrap().unwrap().visit(&mut Sound);
}

fn is_not_migrated<T: Persist<Shop>>(heap: &Heap) {
    assert_eq!(heap.root::<T>().err(), Some(HeapError::NotMigrated));
    assert_eq!(heap.run(|tx| tx.root::<T>().map(drop)).err(), Some(HeapError::NotMigrated));
}

fn is_refused<T: Persist<Shop>>(heap: &Heap) {
    assert!(matches!(heap.root::<T>(), Err(HeapError::OtherTypes(_))));
}

#[test]
fn pools_of_both_older_programs_are_migrated() {
    let mut pool = Pool::new(1 << 20);
    fill(&pool.typed(), 100);
    let mut heap = pool.typed();
    is_not_migrated::<SecondRoot>(&heap);
    let mut heard = Vec::new();
    let done = heap.migrate::<SecondRoot>(|done| heard.push(done)).unwrap();
    // The items, and the two of the pair in one object.
    assert_eq!((done.converted, heard.last()), (101, Some(&done)));
    check_second(&heap, 100);
    is_refused::<FirstRoot>(&heap);
    is_not_migrated::<ThirdRoot>(&heap);
    assert_eq!(heap.migrate::<SecondRoot>(|_| ()).unwrap().visited, 0, "nothing is to be done");
    drop(heap);
    let mut heap = pool.typed();
    // The items, the pair, and the root.
    assert_eq!(heap.migrate::<ThirdRoot>(|_| ()).unwrap().converted, 102);
    check_third(&heap, 100);
    is_refused::<SecondRoot>(&heap);

    let mut pool = Pool::new(1 << 20);
    fill(&pool.typed(), 100);
    let mut heap = pool.typed();
    assert_eq!(heap.migrate_at_once::<ThirdRoot>().unwrap().converted, 102);
    check_third(&heap, 100);
    drop(heap);
    check_third(&pool.typed(), 100);
}

/// Stops a migration after so many of its transactions, as a kill does. Returns false if it was over before.
fn stopped<T: Persist<Shop>>(pool: &mut Pool, transactions: u64) -> bool {
    let mut heap = pool.typed();
    let mut left = transactions;
    let stopped = catch_unwind(AssertUnwindSafe(|| {
        heap.migrate_in_steps::<T>(1, &mut |_| {
            left -= 1;
            if left == 0 {
                resume_unwind(Box::new("stopped"));
            }
        })
    }));
    stopped.map(Result::unwrap).is_err()
}

#[test]
fn stopped_migrations_go_on() {
    const COUNT: u64 = 6;
    for transactions in 1.. {
        let mut pool = Pool::new(1 << 20);
        fill(&pool.typed(), COUNT);
        if !stopped::<SecondRoot>(&mut pool, transactions) {
            assert!(transactions > 2 * COUNT);
            break;
        }
        let heap = pool.typed();
        is_refused::<FirstRoot>(&heap);
        is_not_migrated::<SecondRoot>(&heap);
        is_not_migrated::<ThirdRoot>(&heap);
        assert!(heap.survey().unwrap().unwrap().is_half_migrated());
        drop(heap);
        // Either the same program goes on, or a newer one does, which is stopped, too.
        if transactions % 2 == 0 {
            stopped::<ThirdRoot>(&mut pool, transactions / 2);
            is_refused::<SecondRoot>(&pool.typed());
            pool.typed().migrate::<ThirdRoot>(|_| ()).unwrap();
            check_third(&pool.typed(), COUNT);
        } else {
            pool.typed().migrate::<SecondRoot>(|_| ()).unwrap();
            check_second(&pool.typed(), COUNT);
        }
    }
}

#[test]
fn failed_conversions_lose_nothing() {
    let mut pool = Pool::new(1 << 20);
    fill(&pool.typed(), 3);
    {
        let heap = pool.typed();
        let root = heap.root::<FirstRoot>().unwrap().unwrap();
        heap.run(|tx| {
            let last = tx.alloc(item(u64::MAX))?;
            let root = root.lock(tx)?;
            let first = root.first.take(tx)?.unwrap();
            last.next.set(tx, first)?;
            root.first.set(tx, last)
        })
        .unwrap();
    }
    for at_once in [true, false] {
        let mut heap = pool.typed();
        let result = match at_once {
            true => heap.migrate_at_once::<ThirdRoot>(),
            false => heap.migrate::<ThirdRoot>(|_| ()),
        };
        let error = result.unwrap_err();
        assert!(
            error.to_string().contains("an item without a number") && !error.to_string().contains("at 0x0 "),
            "{error}"
        );
        drop(heap);
        // One transaction that failed has changed nothing.
        let heap = pool.typed();
        assert_eq!(heap.root::<FirstRoot>().is_ok(), at_once);
        assert_eq!(heap.survey().unwrap().unwrap().is_half_migrated(), !at_once);
    }
    // The program before it could take them, but another one has begun.
    pool.typed().migrate::<SecondRoot>(|_| ()).unwrap_err();
}

#[test]
fn types_without_a_way_are_refused() {
    let mut pool = Pool::new(1 << 20);
    fill(&pool.typed(), 1);
    let mut heap = pool.typed();
    assert!(matches!(heap.migrate::<PCell<u64, Shop>>(|_| ()), Err(HeapError::OtherTypes(_))));
    assert!(heap.root::<FirstRoot>().unwrap().is_some());
}

/// A mutex lies in an object whose type changes: its conversion takes the old data out of it.
#[test]
fn data_of_mutexes_is_converted() {
    #[derive(Persist)]
    #[persist(brand = Shop, name = "Stall")]
    #[repr(C)]
    struct StallV1 {
        stock: PMutex<PCell<u32, Shop>, Shop>,
        names: PMutex<PVec<u8, Shop>, Shop>,
    }
    #[derive(Persist)]
    #[persist(brand = Shop, was = StallV1)]
    #[repr(C)]
    struct Stall {
        names: PVec<u8, Shop>,
        stock: PMutex<PCell<u64, Shop>, Shop>,
    }
    impl Migrate<StallV1> for Stall {
        fn migrate(old: StallV1) -> Result<Stall, HeapError> {
            let stock = u64::from(old.stock.into_value().into_value()?);
            Ok(Stall { names: old.names.into_value(), stock: PMutex::new(PCell::new(1000 * stock)) })
        }
    }
    let mut pool = Pool::new(1 << 20);
    let mut heap = pool.typed::<Shop>();
    let before = || StallV1 { stock: PMutex::new(PCell::new(7)), names: PMutex::new(PVec::new()) };
    let stall = heap.root_or_init(|_| Ok(before())).unwrap();
    heap.run(|tx| stall.names.lock(tx)?.extend_from_slice(tx, b"north")).unwrap();
    assert_eq!(heap.migrate::<Stall>(|_| ()).unwrap().converted, 1);
    let stall = heap.root::<Stall>().unwrap().unwrap();
    let guard = heap.guard();
    assert_eq!(stall.stock.read(&guard, |stock| stock.load(&guard)), Ok(7000));
    assert_eq!(stall.names.load_all(&guard).unwrap(), b"north");
    drop(guard);
    check(&heap);
}
