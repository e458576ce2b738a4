//! Stores and typed pools that an earlier build made open, and have their content.
//!
//! The folder `images` has a pool of each shape that the formats know, as a build of its time left it. An image is never
//! made again: it stands for the pools of users. `cargo test -p lodestone-store --test suite make_missing_images -- --ignored`
//! makes those that are not there yet. A change of a format keeps the images, which then show that such pools still
//! open, or are upgraded, and adds new ones by another name.

use crate::place::Place;
use lode_fsck::check_pool;
use lode_index::StoreLayout;
use lode_pool::map_unchecked;
use lode_testing::StoredPools;
use lodestone::typed::{
    Access, CellValue, CreateOptions, HeapError, LayoutName, Migrate, OpenOptions, PBox, PCell, PDeque,
    PHashMap, PMap, PMutex, PString, PVec, Persist, TypedPool, TypedStore,
};
use lodestone::{Durability, Result, Store, TreeDef};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

const IMAGES: StoredPools = StoredPools { manifest_dir: env!("CARGO_MANIFEST_DIR") };

const WORDS: TreeDef<String, u64> = TreeDef::new("words");
const EVENTS: TreeDef<(u64, i32), Vec<u8>> = TreeDef::new("events");
const EMPTY: TreeDef<u8, bool> = TreeDef::new("empty");

/// Names of the images: the format, and the shape.
const STORE: &str = "1-store";
const SHRUNK: &str = "1-store-shrunk";
const UNCLOSED: &str = "1-store-unclosed-commit";
const TYPED: &str = "1-typed";
const TREES: &str = "1-typed-trees-unclosed-line";
const HALF: &str = "1-typed-half-migrated";

fn word(number: u64) -> String {
    format!("word {number}")
}

fn event(number: u64) -> ((u64, i32), Vec<u8>) {
    // Zeros take no space in an image.
    let len = if number == 7 { 20_000 } else { number as usize % 40 };
    ((number, number as i32 - 100), vec![0; len])
}

/// Fills two trees, and drops a third one.
fn fill(store: &Store) -> Result<()> {
    store.write(|tx| {
        let (words, events) = (tx.tree(WORDS)?, tx.tree(EVENTS)?);
        (0..300).try_for_each(|number| words.put(word(number), number).map(drop))?;
        (0..200).map(event).try_for_each(|(key, value)| events.put(key, value).map(drop))?;
        tx.tree(EMPTY)?;
        tx.tree(TreeDef::<u32, Vec<u8>>::new("dropped"))?.append((0..400).map(|key| (key, vec![0; 900])))?;
        Ok(())
    })?;
    store.write(|tx| {
        let words = tx.tree(WORDS)?;
        (0..300).step_by(3).try_for_each(|number| words.delete(word(number)).map(drop))?;
        tx.drop_tree("dropped").map(drop)
    })
}

fn assert_has_all(store: &Store) -> Result<()> {
    let view = store.snapshot()?;
    assert_eq!(view.tree_names()?, ["empty", "events", "words"]);
    let words = (0..300).filter(|number| number % 3 != 0).map(|number| (word(number), number));
    let mut words: Vec<_> = words.collect();
    words.sort_unstable();
    assert_eq!(view.tree(WORDS)?.iter().collect::<Result<Vec<_>>>()?, words);
    assert!(view.tree(EVENTS)?.iter().collect::<Result<Vec<_>>>()?.into_iter().eq((0..200).map(event)));
    assert_eq!(view.tree(EMPTY)?.iter().count(), 0);
    Ok(())
}

lodestone::typed::brand!(Mine);

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
enum Metal {
    Iron,
    Alloy { of: u16, shares: (u8, u8) },
}

const ALLOY: Metal = Metal::Alloy { of: 3, shares: (1, 9) };

/// The program that made the pools.
mod then {
    use super::*;

    #[derive(Persist)]
    #[persist(brand = Mine)]
    #[repr(C)]
    pub(super) struct Vein {
        pub(super) depth: u32,
        pub(super) metal: PCell<Option<Metal>, Mine>,
        pub(super) name: PString<Mine>,
        pub(super) next: PBox<Vein, Mine>,
    }

    #[derive(Persist)]
    #[persist(brand = Mine)]
    #[repr(C)]
    pub(super) struct Root {
        pub(super) first: PBox<Vein, Mine>,
        pub(super) others: PVec<PBox<Vein, Mine>, Mine>,
        pub(super) shifts: PMutex<PDeque<(u16, bool), Mine>, Mine>,
        pub(super) prices: PHashMap<u32, Metal, Mine>,
        pub(super) sorted: PMap<(u64, i16), Option<Metal>, Mine>,
    }
}

/// A program of later, whose veins have a field more.
mod later {
    use super::*;

    #[derive(Persist)]
    #[persist(brand = Mine, was = VeinV1)]
    #[repr(C)]
    pub(super) struct Vein {
        pub(super) depth: u32,
        pub(super) is_open: PCell<bool, Mine>,
        pub(super) metal: PCell<Option<Metal>, Mine>,
        pub(super) name: PString<Mine>,
        pub(super) next: PBox<Vein, Mine>,
    }

    #[derive(Persist)]
    #[persist(brand = Mine, name = "Vein")]
    #[repr(C)]
    pub(super) struct VeinV1 {
        depth: u32,
        metal: PCell<Option<Metal>, Mine>,
        name: PString<Mine>,
        next: PBox<Vein, Mine>,
    }

    impl Migrate<VeinV1> for Vein {
        fn migrate(old: VeinV1) -> std::result::Result<Vein, HeapError> {
            let VeinV1 { depth, metal, name, next } = old;
            Ok(Vein { depth, is_open: PCell::new(depth.is_multiple_of(2)), metal, name, next })
        }
    }

    #[derive(Persist)]
    #[persist(brand = Mine)]
    #[repr(C)]
    pub(super) struct Root {
        pub(super) first: PBox<Vein, Mine>,
        pub(super) others: PVec<PBox<Vein, Mine>, Mine>,
        pub(super) shifts: PMutex<PDeque<(u16, bool), Mine>, Mine>,
        pub(super) prices: PHashMap<u32, Metal, Mine>,
        pub(super) sorted: PMap<(u64, i16), Option<Metal>, Mine>,
    }
}

fn create_options(durability: Durability) -> CreateOptions {
    let options = CreateOptions::new(1 << 20, LayoutName::new("mine").unwrap());
    CreateOptions { durability: Some(durability), ..options }
}

fn open_options() -> OpenOptions {
    OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(Access::ReadWrite) }
}

/// Makes a list of veins, others in a vector, and containers.
fn fill_typed(pool: &TypedPool<Mine>) -> std::result::Result<(), HeapError> {
    let root = pool.root_or_init(|_| {
        Ok(then::Root {
            first: PBox::null(),
            others: PVec::new(),
            shifts: PMutex::new(PDeque::new()),
            prices: PHashMap::new(),
            sorted: PMap::new(),
        })
    })?;
    pool.run(|tx| {
        for depth in 0..90 {
            let metal = [None, Some(Metal::Iron), Some(ALLOY)][depth as usize % 3];
            let (name, next) = (PString::new(), PBox::null());
            let vein = tx.alloc(then::Vein { depth, metal: PCell::new(metal), name, next })?;
            vein.name.set(tx, &format!("vein {depth}"))?;
            if depth >= 60 {
                root.others.push(tx, vein)?;
                continue;
            }
            if let Some(next) = root.first.take(tx)? {
                vein.next.set(tx, next)?;
            }
            root.first.set(tx, vein)?;
        }
        (0..40).try_for_each(|hour| root.shifts.lock(tx)?.push_back(tx, (hour, hour % 2 == 0)))?;
        (0..25).try_for_each(|_| root.shifts.lock(tx)?.pop_front(tx).map(drop))?;
        for number in 0..50_u32 {
            root.prices.insert(tx, number, if number % 2 == 0 { Metal::Iron } else { ALLOY })?;
            root.sorted.insert(tx, (u64::from(number) << 40, -3), Some(ALLOY))?;
        }
        Ok(())
    })
}

/// Compares all that is of the same types in both programs, and returns the names of the veins.
macro_rules! assert_has_typed {
    ($pool:expr, $root:ty) => {{
        let root = $pool.root::<$root>()?.expect("the root");
        let guard = $pool.guard();
        let mut veins = root.others.load_all(&guard)?;
        let mut next = root.first.load(&guard)?;
        while let Some(vein) = next {
            veins.push(vein);
            next = vein.next.load(&guard)?;
        }
        veins.sort_unstable_by_key(|vein| vein.depth);
        assert!(veins.iter().map(|vein| vein.depth).eq(0..90));
        for vein in &veins {
            assert_eq!(vein.name.load(&guard)?, format!("vein {}", vein.depth));
            let metal = [None, Some(Metal::Iron), Some(ALLOY)][vein.depth as usize % 3];
            assert_eq!(vein.metal.load(&guard)?, metal);
        }
        let shifts = root.shifts.read(&guard, |shifts| shifts.load_all(&guard))?;
        assert!(shifts.into_iter().eq((25..40).map(|hour| (hour, hour % 2 == 0))));
        let mut prices = root.prices.load_all(&guard)?;
        prices.sort_unstable_by_key(|(number, _)| *number);
        assert!(
            prices.into_iter().eq((0..50).map(|number| (number, [Metal::Iron, ALLOY][number as usize % 2])))
        );
        let sorted = root.sorted.load_range(&guard, ..).collect::<std::result::Result<Vec<_>, _>>()?;
        assert!(sorted.into_iter().eq((0..50_u64).map(|number| ((number << 40, -3), Some(ALLOY)))));
    }};
}

fn open_typed(path: &Path) -> TypedPool<Mine> {
    TypedPool::open(path, &open_options()).unwrap()
}

/// The closed pool has no damage.
fn check(path: &Path) {
    let view = map_unchecked(path, &OpenOptions::new(Access::ReadOnly)).unwrap();
    let report = check_pool(Arc::new(view), &[&StoreLayout]);
    assert!(report.is_clean() && report.traced, "{report}");
}

fn make(name: &str, path: &Path) -> std::result::Result<(), Box<dyn std::error::Error>> {
    match name {
        STORE | SHRUNK => {
            let store = Store::options().durability(Durability::Commit).create_new(path)?;
            fill(&store)?;
            store.close()?;
            if name == SHRUNK {
                Store::options().durability(Durability::Commit).shrink(path)?;
            }
        }
        UNCLOSED => {
            let store = Store::options().durability(Durability::Commit).create_new(path)?;
            fill(&store)?;
            // As a kill leaves it.
            let bytes = fs::read(path)?;
            drop(store);
            fs::write(path, bytes)?;
        }
        TYPED => {
            let pool = TypedPool::create(path, &create_options(Durability::Commit))?;
            fill_typed(&pool)?;
            pool.close()?;
        }
        TREES => {
            let store = TypedStore::<Mine>::create(path, &create_options(Durability::Line))?;
            fill_typed(&store)?;
            store.write(|tx| tx.tree(WORDS)?.put(word(1), 1))?;
            let bytes = fs::read(path)?;
            drop(store);
            fs::write(path, bytes)?;
        }
        HALF => {
            let mut pool = TypedPool::create(path, &create_options(Durability::Commit))?;
            fill_typed(&pool)?;
            let stopped = catch_unwind(AssertUnwindSafe(|| {
                pool.migrate_in_steps::<later::Root>(20, &mut |_| resume_unwind(Box::new("stopped")))
            }));
            assert!(stopped.is_err());
            let bytes = fs::read(path)?;
            drop(pool);
            fs::write(path, bytes)?;
        }
        _ => unreachable!("an image without a maker"),
    }
    Ok(())
}

fn unpacked(name: &str) -> Place {
    let place = Place::new();
    IMAGES.unpack(name, &place.path());
    place
}

#[test]
fn stored_stores_open() -> Result<()> {
    for name in [STORE, SHRUNK, UNCLOSED] {
        let place = unpacked(name);
        for _ in 0..2 {
            let store = place.open();
            assert_has_all(&store)?;
            store.close()?;
            place.check(200 + 200);
        }
        let store = place.open();
        store.write(|tx| tx.tree(WORDS)?.put(word(0), 0))?;
        store.close()?;
        place.check(1 + 200 + 200);
    }
    Ok(())
}

#[test]
fn stored_typed_pools_open() -> std::result::Result<(), Box<dyn std::error::Error>> {
    for name in [TYPED, TREES] {
        let place = unpacked(name);
        let mut pool = open_typed(&place.path());
        assert_has_typed!(pool, then::Root);
        pool.close()?;
        check(&place.path());
        if name == TREES {
            let store = TypedStore::<Mine>::open(&place.path(), &open_options())?;
            assert_eq!(store.get(WORDS, word(1))?, Some(1));
            store.close()?;
        }
        pool = open_typed(&place.path());
        assert_eq!(pool.migrate::<later::Root>(|_| ())?.converted, 90);
        assert_has_typed!(pool, later::Root);
        pool.close()?;
        check(&place.path());
    }
    Ok(())
}

/// A migration that a build of then has begun goes on.
#[test]
fn stored_migration_goes_on() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let place = unpacked(HALF);
    let mut pool = open_typed(&place.path());
    assert_eq!(pool.root::<later::Root>().err(), Some(HeapError::NotMigrated));
    pool.migrate::<later::Root>(|_| ())?;
    assert_has_typed!(pool, later::Root);
    let root = pool.root::<later::Root>()?.expect("the root");
    let guard = pool.guard();
    for vein in root.others.load_all(&guard)? {
        assert_eq!(vein.is_open.load(&guard)?, vein.depth.is_multiple_of(2));
    }
    drop(guard);
    pool.close()?;
    check(&place.path());
    Ok(())
}

/// Makes the images that are missing: of a new shape, or of a new format.
#[test]
#[ignore = "makes images, which are kept for good"]
fn make_missing_images() -> std::result::Result<(), Box<dyn std::error::Error>> {
    for name in [STORE, SHRUNK, UNCLOSED, TYPED, TREES, HALF] {
        if !IMAGES.path(name).exists() {
            let place = Place::new();
            make(name, &place.path())?;
            IMAGES.write(name, &fs::read(place.path())?);
        }
    }
    Ok(())
}
