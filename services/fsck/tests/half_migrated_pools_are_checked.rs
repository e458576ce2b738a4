//! A migration that stops at any moment leaves a pool in which a check finds nothing but leaks and damage, if there are some; a
//! repair keeps what is left of the migration, which goes on.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_fsck::{check_pool, repair_pool};
use lode_heap::check::{Report, Severity};
use lode_heap::{
    CreateOptions, Durability, Heap, HeapError, LayoutName, Migrate, PBox, PCell, PString, PVec, Persist,
    TypedHeap, TypedPool,
};
use lode_layout::PoolOffset;
use lode_pmem::{Mapping, Medium};
use lode_pool::Headers;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

lode_heap::brand!(Shop);

const ITEMS: u64 = 5;

/// The first program: items with notes, in a list. Shelves do not change.
mod first {
    use super::*;

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Shelf {
        pub(super) years: PVec<u16, Shop>,
        pub(super) item: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) euros: PCell<u32, Shop>,
        pub(super) name: PString<Shop>,
        pub(super) note: PBox<PCell<u64, Shop>, Shop>,
        pub(super) shelf: PBox<Shelf, Shop>,
        pub(super) next: PBox<Item, Shop>,
    }

    pub(super) fn item(euros: u32) -> Item {
        let (name, note, shelf) = (PString::new(), PBox::null(), PBox::null());
        Item { euros: PCell::new(euros), name, note, shelf, next: PBox::null() }
    }
}

/// An item as the first program made it.
#[derive(Persist)]
#[persist(brand = Shop, name = "Item")]
#[repr(C)]
struct ItemV1 {
    euros: PCell<u32, Shop>,
    name: PString<Shop>,
    note: PBox<PCell<u64, Shop>, Shop>,
    shelf: PBox<second::Shelf, Shop>,
    next: PBox<second::Item, Shop>,
}

/// The second program: prices in cents, no notes.
mod second {
    use super::*;

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Shelf {
        pub(super) years: PVec<u16, Shop>,
        pub(super) item: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop, was = ItemV1)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) name: PString<Shop>,
        pub(super) cents: PCell<u64, Shop>,
        pub(super) shelf: PBox<Shelf, Shop>,
        pub(super) next: PBox<Item, Shop>,
    }

    impl Migrate<ItemV1> for Item {
        fn migrate(old: ItemV1) -> Result<Item, HeapError> {
            let cents = PCell::new(u64::from(old.euros.into_value()?) * 100);
            Ok(Item { name: old.name, cents, shelf: old.shelf, next: old.next })
        }
    }
}

/// The third program: items have a flag.
mod third {
    use super::*;

    #[derive(Persist)]
    #[persist(brand = Shop)]
    #[repr(C)]
    pub(super) struct Shelf {
        pub(super) years: PVec<u16, Shop>,
        pub(super) item: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop, was = ItemV2)]
    #[repr(C)]
    pub(super) struct Item {
        pub(super) sold: PCell<bool, Shop>,
        pub(super) name: PString<Shop>,
        pub(super) cents: PCell<u64, Shop>,
        pub(super) shelf: PBox<Shelf, Shop>,
        pub(super) next: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop, name = "Item", was = ItemV1)]
    #[repr(C)]
    pub(super) struct ItemV2 {
        name: PString<Shop>,
        cents: PCell<u64, Shop>,
        shelf: PBox<Shelf, Shop>,
        next: PBox<Item, Shop>,
    }

    #[derive(Persist)]
    #[persist(brand = Shop, name = "Item")]
    #[repr(C)]
    pub(super) struct ItemV1 {
        euros: PCell<u32, Shop>,
        name: PString<Shop>,
        note: PBox<PCell<u64, Shop>, Shop>,
        shelf: PBox<Shelf, Shop>,
        next: PBox<Item, Shop>,
    }

    impl Migrate<ItemV1> for ItemV2 {
        fn migrate(old: ItemV1) -> Result<ItemV2, HeapError> {
            let cents = PCell::new(u64::from(old.euros.into_value()?) * 100);
            Ok(ItemV2 { name: old.name, cents, shelf: old.shelf, next: old.next })
        }
    }

    impl Migrate<ItemV2> for Item {
        fn migrate(old: ItemV2) -> Result<Item, HeapError> {
            let ItemV2 { name, cents, shelf, next } = old;
            Ok(Item { sold: PCell::new(false), name, cents, shelf, next })
        }
    }
}

fn memory(bytes: &[u8]) -> Arc<Mapping> {
    Arc::new(lode_testing::memory::from_bytes(bytes))
}

fn bytes(medium: &Mapping) -> Vec<u8> {
    let mut bytes = vec![0; medium.memory().len() as usize];
    medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut bytes)).unwrap();
    bytes
}

/// Makes a pool of the first program: a list of items, each with a name, a note and a shelf, on which another item is.
fn shop() -> Arc<Mapping> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let layout = LayoutName::new("shop").unwrap();
    let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(1 << 20, layout) };
    let pool = TypedPool::<Shop>::create(&path, &options).unwrap();
    let root = pool.root_or_init(|_| Ok::<_, HeapError>(first::item(0))).unwrap();
    pool.run(|tx| {
        for number in (1..ITEMS).rev() {
            let new = tx.alloc(first::item(number as u32))?;
            new.name.set(tx, &format!("item {number}"))?;
            new.note.set(tx, tx.alloc(PCell::new(number))?)?;
            let shelf = tx.alloc(first::Shelf { years: PVec::new(), item: PBox::null() })?;
            shelf.years.push(tx, 1900 + number as u16)?;
            shelf.item.set(tx, tx.alloc(first::item(100 + number as u32))?)?;
            new.shelf.set(tx, shelf)?;
            if let Some(next) = root.next.take(tx)? {
                new.next.set(tx, next)?;
            }
            root.next.set(tx, new)?;
        }
        Ok::<_, HeapError>(())
    })
    .unwrap();
    pool.close().unwrap();
    memory(&std::fs::read(&path).unwrap())
}

fn open(medium: &Arc<Mapping>) -> TypedHeap<Shop> {
    let header = *Headers::read(&**medium).unwrap().current();
    let (heap, _) =
        Heap::open(Arc::clone(medium), &header.geometry, *header.uuid.as_bytes(), [5, 6]).unwrap();
    TypedHeap::new(heap)
}

/// Stops a migration after so many of its transactions, as a kill does. Returns false if it was over before.
fn stop<T: Persist<Shop>>(medium: &Arc<Mapping>, transactions: u64) -> bool {
    let mut heap = open(medium);
    let mut left = transactions;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        heap.migrate_in_steps::<T>(1, &mut |_| {
            left -= 1;
            if left == 0 {
                resume_unwind(Box::new("stopped"));
            }
        })
    }));
    ended.map(Result::unwrap).is_err()
}

/// Migrates the rest. Each item has its price and its name then, and nothing else is left.
fn finish<T: Persist<Shop>>(
    medium: &Arc<Mapping>,
    price: impl Fn(&T, &lode_heap::Guard<'_, Shop, Arc<Mapping>>) -> (u64, String),
    next: for<'g> fn(&'g T, &'g lode_heap::Guard<'_, Shop, Arc<Mapping>>) -> Option<&'g T>,
) {
    let mut heap = open(medium);
    heap.migrate::<T>(|_| ()).unwrap();
    let root = heap.root::<T>().unwrap();
    let guard = heap.guard();
    let mut found = Vec::new();
    let mut item = root;
    while let Some(this) = item {
        found.push(price(this, &guard));
        item = next(this, &guard);
    }
    let named = |number| (100 * number, if number == 0 { String::new() } else { format!("item {number}") });
    assert_eq!(found, (0..ITEMS).map(named).collect::<Vec<_>>());
    drop(guard);
    // The root; of each other item itself, its name, its shelf with years and an item; root object and types.
    assert_eq!(heap.objects().count() as u64, 1 + 5 * (ITEMS - 1) + 2);
    drop(heap);
    assert!(check(medium).is_clean());
}

fn finish_second(medium: &Arc<Mapping>) {
    finish::<second::Item>(
        medium,
        |item, guard| (item.cents.load(guard).unwrap(), item.name.load(guard).unwrap()),
        |item, guard| item.next.load(guard).unwrap(),
    );
}

fn finish_third(medium: &Arc<Mapping>) {
    finish::<third::Item>(
        medium,
        |item, guard| (item.cents.load(guard).unwrap(), item.name.load(guard).unwrap()),
        |item, guard| item.next.load(guard).unwrap(),
    );
}

fn check(medium: &Arc<Mapping>) -> Report {
    let report = check_pool(memory_copy(medium), &[]);
    assert!(report.traced, "{report}");
    report
}

fn memory_copy(medium: &Arc<Mapping>) -> Arc<Mapping> {
    memory(&bytes(medium))
}

/// Calls `visit` with pools whose migrations were stopped at each moment: once, or twice with objects of three types. Returns their
/// number.
fn stopped_pools(mut visit: impl FnMut(&Arc<Mapping>, bool)) -> u64 {
    let mut pools = 0;
    for transactions in 1.. {
        let medium = shop();
        if !stop::<second::Item>(&medium, transactions) {
            break;
        }
        visit(&memory_copy(&medium), false);
        pools += 1;
        for more in (1..).step_by(7) {
            let medium = memory_copy(&medium);
            if !stop::<third::Item>(&medium, more) {
                break;
            }
            visit(&medium, true);
            pools += 1;
        }
    }
    pools
}

#[test]
fn half_migrated_pools_have_no_finding() {
    let pools = stopped_pools(|medium, is_third| {
        let report = check(medium);
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.counts.reached, report.counts.objects, "{report}");
        assert_eq!(
            report.findings.iter().map(|finding| finding.severity).collect::<Vec<_>>(),
            [Severity::Note]
        );
        let repair = repair_pool(medium, [9, 9], &[]).unwrap();
        assert_eq!((repair.repaired, repair.has_losses(), repair.unknown_layout), (0, false, false));
        assert!(repair.after.is_clean() && repair.after.traced, "{}", repair.after);
        if is_third { finish_third(medium) } else { finish_second(medium) }
    });
    assert!(pools > 100, "{pools}");
}

/// A leak is found and freed in the middle of a migration, too, and the migration goes on.
#[test]
fn leaks_are_freed_during_a_migration() {
    stopped_pools(|medium, is_third| {
        let header = *Headers::read(&**medium).unwrap().current();
        let opened = Heap::open(Arc::clone(medium), &header.geometry, *header.uuid.as_bytes(), [8, 6]);
        let (heap, _) = opened.unwrap();
        let leak = heap.run(|tx| tx.alloc_zeroed(100, 8, <ItemV1 as Persist<Shop>>::TYPE_NUMBER)).unwrap();
        heap.close().unwrap();
        let report = check(medium);
        let damage = report.findings.iter().filter(|finding| finding.severity == Severity::Damage);
        assert_eq!(damage.map(|finding| finding.at).collect::<Vec<_>>(), [leak]);
        let repair = repair_pool(medium, [9, 9], &[]).unwrap();
        let [freed] = &repair.typed.freed[..] else { panic!("{:?}", repair.typed) };
        assert_eq!((freed.at, freed.type_name.as_deref()), (leak, Some("Item")));
        assert!(repair.after.is_clean() && !repair.has_losses());
        if is_third { finish_third(medium) } else { finish_second(medium) }
    });
}
