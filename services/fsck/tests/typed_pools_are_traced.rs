//! A check of a typed pool finds leaks, and pointers that lead nowhere or to an object with another owner.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_fsck::check_pool;
use lode_heap::check::{Finding, Report, Severity};
use lode_heap::{Access, CreateOptions, Durability, LayoutName, OpenOptions};
use lode_heap::{PBox, PCell, PDeque, PHashMap, PString, PVec, Persist, Pool, TypedPool};
use lode_layout::{PoolOffset, TypedRoot, decode_root, encode_root};
use lode_pmem::Medium;
use lode_pool::UncheckedPool;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

lode_heap::brand!(Town);

#[derive(Persist)]
#[persist(brand = Town)]
#[repr(C)]
struct House {
    number: PCell<u64, Town>,
    next: PBox<House, Town>,
    names: PString<Town>,
    years: PVec<u32, Town>,
    kind: PCell<Option<bool>, Town>,
    wishes: PDeque<(bool, u8), Town>,
    rooms: PVec<PBox<PString<Town>, Town>, Town>,
    bells: PHashMap<(u8, bool), bool, Town>,
}

fn house(number: u64) -> House {
    House {
        number: PCell::new(number),
        next: PBox::null(),
        names: PString::new(),
        years: PVec::new(),
        kind: PCell::new(None),
        wishes: PDeque::new(),
        rooms: PVec::new(),
        bells: PHashMap::new(),
    }
}

/// Makes a pool with a chain of three houses, each with a string, a vector and a queue, and two rooms and two bells in the last one: with
/// the root object and the types, twenty objects.
fn town() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let layout = LayoutName::new("town").unwrap();
    let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(1 << 20, layout) };
    let pool = TypedPool::<Town>::create(&path, &options).unwrap();
    let root = pool.root_or_init(|_| Ok(house(1))).unwrap();
    pool.run(|tx| {
        root.next.set(tx, tx.alloc(house(2))?)?;
        let second = root.next.get(tx)?.unwrap();
        second.next.set(tx, tx.alloc(house(3))?)?;
        for house in [root, second, second.next.get(tx)?.unwrap()] {
            house.names.set(tx, "a name that takes some room")?;
            house.years.push(tx, 1900)?;
            house.wishes.push_back(tx, (true, 1))?;
            house.wishes.push_back(tx, (false, 2))?;
        }
        let last = second.next.get(tx)?.unwrap();
        last.bells.insert(tx, (1, true), true)?;
        last.bells.insert(tx, (2, false), false)?;
        let rooms = &last.rooms;
        for name in ["kitchen", "attic"] {
            rooms.push(tx, tx.alloc(PString::new())?)?.set(tx, name)?;
        }
        Ok(())
    })
    .unwrap();
    pool.close().unwrap();
    (folder, path)
}

fn view(path: &Path) -> Arc<UncheckedPool> {
    Arc::new(lode_pool::map_unchecked(path, &OpenOptions::new(Access::ReadOnly)).unwrap())
}

fn check(view: Arc<UncheckedPool>) -> Report {
    check_pool(view, &[])
}

fn load(view: &UncheckedPool, at: PoolOffset) -> u64 {
    view.memory().reading(|memory| memory.load8(at)).unwrap()
}

/// Offset of the root object.
fn typed_root_of(view: &UncheckedPool) -> PoolOffset {
    let geometry = *lode_pool::Headers::read(view).unwrap().geometry();
    decode_root(load(view, geometry.extents()[0].start)).unwrap()
}

/// The root object.
fn typed_root(view: &UncheckedPool) -> TypedRoot {
    TypedRoot::decode([0, 8, 16, 24].map(|word| load(view, typed_root_of(view).plus(word)))).unwrap()
}

/// Offset of the first house.
fn root_of(view: &UncheckedPool) -> PoolOffset {
    typed_root(view).root
}

/// Offset of the pointer `next` of the root.
fn next_of_root(view: &UncheckedPool) -> PoolOffset {
    root_of(view).plus(std::mem::offset_of!(House, next) as u64)
}

#[test]
fn sound_pool_has_no_leak() {
    let (_folder, path) = town();
    let report = check(view(&path));
    assert!(report.is_clean() && report.traced, "{report}");
    assert_eq!((report.counts.reached, report.counts.objects), (20, 20));
}

#[test]
fn object_without_owner_is_a_leak() {
    let (_folder, path) = town();
    let options = OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(Access::ReadWrite) };
    let pool = Pool::open(&path, &options).unwrap();
    let at = pool.heap().run(|tx| tx.alloc_zeroed(100, 8, 1)).unwrap();
    pool.close().unwrap();
    let report = check(view(&path));
    assert_eq!(report.worst(), Some(Severity::Damage), "{report}");
    assert_eq!(report.findings.iter().map(|finding| finding.at).collect::<Vec<_>>(), [at]);
}

#[test]
fn misdirected_pointer_is_corruption() {
    let (_folder, path) = town();
    let sound = view(&path);
    let second = sound.memory().reading(|memory| memory.load8(next_of_root(&sound))).unwrap();
    // To the root itself; between two objects; outside of the pool.
    for (target, reached) in [(root_of(&sound).get(), 7), (second + 8, 7), (1 << 40, 7)] {
        let view = view(&path);
        view.store8(next_of_root(&view), target);
        let report = check(Arc::clone(&view));
        assert_eq!(report.counts.reached, reached, "{report}");
        assert!(report.findings[0].what.contains("pointer"), "{report}");
        // The other fourteen are leaks now.
        assert_eq!(report.findings.len(), 15, "{report}");
    }
}

/// Changes words of the pool and returns what a check finds: path and consequence of each finding.
fn found(change: impl Fn(&UncheckedPool)) -> Vec<(String, &'static str)> {
    let (_folder, path) = town();
    let view = view(&path);
    change(&view);
    let finding = |finding: Finding| (finding.path.unwrap_or_default(), finding.means);
    check(view).findings.into_iter().map(finding).collect()
}

fn store_words<const N: usize>(view: &UncheckedPool, at: PoolOffset, words: [u64; N]) {
    words.into_iter().zip(0..).for_each(|(word, index)| view.store8(at.plus(8 * index), word));
}

#[test]
fn values_and_lengths_are_checked() {
    const MEANS_VALUE: &str = "its bytes are no value of its type";
    const MEANS_LONG: &str = "it has more elements than its buffer has room for";
    let root = root_of;
    let at = |offset: usize| move |view: &UncheckedPool| root(view).plus(offset as u64);
    let (kind, names, years, wishes) = (
        at(offset_of!(House, kind)),
        at(offset_of!(House, names)),
        at(offset_of!(House, years)),
        at(offset_of!(House, wishes)),
    );
    let is = |found: Vec<_>, path: &str, means| assert_eq!(found, [(path.to_owned(), means)]);
    is(found(|view| view.store8(kind(view), 9)), "House.kind", MEANS_VALUE);
    is(found(|view| view.store8(years(view).plus(8), 1000)), "House.years", MEANS_LONG);
    is(found(|view| view.store8(years(view).plus(8), u64::MAX)), "House.years", MEANS_LONG);
    is(found(|view| view.store8(wishes(view).plus(24), 1000)), "House.wishes", MEANS_LONG);
    is(found(|view| view.store8(wishes(view).plus(16), 4)), "House.wishes", MEANS_LONG);
    let text = |view: &UncheckedPool| {
        let buffer = view.memory().reading(|memory| memory.load8(names(view))).unwrap();
        view.store8(PoolOffset::new(buffer), u64::MAX);
    };
    is(found(text), "House.names", "its bytes are not UTF-8");
    let wish = |view: &UncheckedPool| {
        let buffer = view.memory().reading(|memory| memory.load8(wishes(view))).unwrap();
        view.store8(PoolOffset::new(buffer), 0x02_02_00);
    };
    is(found(wish), "House.wishes[1]", MEANS_VALUE);
}

#[test]
fn pointers_to_objects_of_other_types_are_found() {
    let found = found(|view| {
        let [next, years] = [offset_of!(House, next), offset_of!(House, years)]
            .map(|offset| root_of(view).plus(offset as u64));
        let [house, buffer] =
            [next, years].map(|at| view.memory().reading(|memory| memory.load8(at)).unwrap());
        store_words(view, next, [buffer]);
        store_words(view, years, [house]);
    });
    let path = |path: &str| (path.to_owned(), "an object of another type is there");
    // The vector comes first: the objects of boxes are visited after the object that has them.
    assert_eq!(found[..2], [path("House.years"), path("House.next")]);
}

#[test]
fn repeated_steps_are_counted() {
    let found = found(|view| {
        let mut house = root_of(view);
        for _ in 0..2 {
            let next = house.plus(offset_of!(House, next) as u64);
            house = PoolOffset::new(view.memory().reading(|memory| memory.load8(next)).unwrap());
        }
        view.store8(house.plus(offset_of!(House, kind) as u64), 9);
    });
    assert_eq!(found, [("House.next{2}.kind".to_owned(), "its bytes are no value of its type")]);
}

/// Returns the offset of the last house.
fn last_house(view: &UncheckedPool) -> PoolOffset {
    let mut house = root_of(view);
    for _ in 0..2 {
        house = PoolOffset::new(load(view, house.plus(offset_of!(House, next) as u64)));
    }
    house
}

#[test]
fn elements_of_a_vector_are_named_by_their_index() {
    let rooms = |view: &UncheckedPool| last_house(view).plus(offset_of!(House, rooms) as u64);
    let room = |view: &UncheckedPool, index: u64| PoolOffset::new(load(view, rooms(view))).plus(8 * index);
    let first = |change: &dyn Fn(&UncheckedPool)| found(change).swap_remove(0);
    let is = |found: (String, &'static str), path: &str, means| assert_eq!(found, (path.to_owned(), means));
    let no_object = "no object is there";
    is(first(&|view| view.store8(room(view, 1), 0)), "House.next{2}.rooms[1]", no_object);
    let not_allocated = "it is not allocated, so it may be overwritten";
    is(first(&|view| view.store8(room(view, 0), 1 << 40)), "House.next{2}.rooms[0]", not_allocated);
    let text = |view: &UncheckedPool| {
        let text = PoolOffset::new(load(view, room(view, 1)));
        view.store8(PoolOffset::new(load(view, text)), u64::MAX);
    };
    is(first(&text), "House.next{2}.rooms[1]", "its bytes are not UTF-8");
    let long = "it has more elements than its buffer has room for";
    is(first(&|view| view.store8(rooms(view).plus(8), 1000)), "House.next{2}.rooms", long);
    // Two elements that lead to one object.
    let twice = |view: &UncheckedPool| view.store8(room(view, 1), load(view, room(view, 0)));
    let report = first(&twice);
    assert!(report.0 == "House.next{2}.rooms[1]", "{report:?}");
}

#[test]
fn entries_of_a_hash_map_are_named_by_their_key() {
    let bells = |view: &UncheckedPool| last_house(view).plus(offset_of!(House, bells) as u64);
    // Returns the offset of the slot whose key begins with this byte.
    let slot = |view: &UncheckedPool, key: u64| {
        let buffer = PoolOffset::new(load(view, bells(view)));
        let mut slots = (0..8).map(|slot| buffer.plus(16 * slot)).filter(|slot| load(view, *slot) != 0);
        slots.find(|slot| load(view, slot.plus(8)) & 0xFF == key).unwrap()
    };
    let is = |found: Vec<_>, path: &str, means| assert_eq!(found, [(path.to_owned(), means)]);
    let no_key = "its key is none of its type, or lies where no search comes";
    let value = |view: &UncheckedPool| view.store8(slot(view, 1).plus(8), 0x09_01_01);
    is(found(value), "House.next{2}.bells[(1, true)]", "its bytes are no value of its type");
    is(
        found(|view| view.store8(slot(view, 1).plus(8), 0x00_07_01)),
        "House.next{2}.bells[b\"\\x01\\x07\"]",
        no_key,
    );
    is(
        found(|view| view.store8(slot(view, 2).plus(8), 0x00_00_03)),
        "House.next{2}.bells[(3, false)]",
        no_key,
    );
    is(
        found(|view| view.store8(slot(view, 2), 0)),
        "House.next{2}.bells",
        "it has more or fewer entries than it counts",
    );
    let long = "it has more elements than its buffer has room for";
    is(found(|view| view.store8(bells(view).plus(8), 1 << 30)), "House.next{2}.bells", long);
}

#[test]
fn damaged_type_tables_are_found() {
    let types = |view: &UncheckedPool| typed_root(view).types;
    let means = "it is damaged, so nothing is traced";
    let is = |found: Vec<_>| assert_eq!(found, [(String::new(), means)]);
    is(found(|view| view.store8(types(view).plus(40), 0)));
    is(found(|view| view.store8(types(view), 0)));
    is(found(|view| view.store8(typed_root_of(view), 77)));
    is(found(|view| view.store8(typed_root_of(view).plus(8), encode_root(root_of(view)))));
    let outside =
        found(|view| view.store8(typed_root_of(view).plus(8), encode_root(PoolOffset::new(1 << 30))));
    assert_eq!(outside, [(String::new(), "no object is there, so nothing is traced")]);
}
