//! A repair of a typed pool keeps all that has an owner, frees the rest, and names what it loses by its way from the root.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_fsck::{LossReason, Repair, TypedObject, TypedRepair, repair_pool};
use lode_heap::{
    CreateOptions, Durability, Heap, HeapError, LayoutName, PBox, PCell, PHashMap, PString, PVec, Persist,
    TypedDamage, TypedPlace, TypedPool, TypedSurvey, TypedVisitor,
};
use lode_layout::{CHUNK, PoolOffset, SPAN_HEADER, TypedRoot, WORD, checked, decode_root};
use lode_pmem::{Mapping, Medium};
use lode_pool::Headers;
use lode_testing::KilledMedium;
use std::collections::BTreeMap;
use std::fs::File;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

lode_heap::brand!(Town);

const LOG_EPOCH: [u64; 2] = [77, 78];
/// Number of houses.
const HOUSES: u64 = 6;

/// Has one pointer to its own type, as in a list.
#[derive(Persist)]
#[persist(brand = Town)]
#[repr(C)]
struct House {
    number: PCell<u64, Town>,
    next: PBox<House, Town>,
    name: PString<Town>,
    garden: PBox<Garden, Town>,
    rooms: PVec<PBox<Room, Town>, Town>,
}

#[derive(Persist)]
#[persist(brand = Town)]
#[repr(C)]
struct Room {
    area: u64,
    doors: PHashMap<u8, u16, Town>,
}

/// Has two pointers to its own type.
#[derive(Persist)]
#[persist(brand = Town)]
#[repr(C)]
struct Garden {
    trees: PVec<u16, Town>,
    left: PBox<Garden, Town>,
    right: PBox<Garden, Town>,
}

fn house(number: u64) -> House {
    let (name, rooms) = (PString::new(), PVec::new());
    House { number: PCell::new(number), next: PBox::null(), name, garden: PBox::null(), rooms }
}

fn garden() -> Garden {
    Garden { trees: PVec::new(), left: PBox::null(), right: PBox::null() }
}

fn memory(bytes: &[u8]) -> Arc<Mapping> {
    Arc::new(lode_testing::memory::from_bytes(bytes))
}

/// Makes a pool with a list of houses. Each has a name, a garden with trees and two gardens in it, and three rooms with doors. Returns
/// its bytes.
fn town() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let layout = LayoutName::new("town").unwrap();
    let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(1 << 20, layout) };
    let pool = TypedPool::<Town>::create(&path, &options).unwrap();
    let root = pool.root_or_init(|_| Ok::<_, HeapError>(house(0))).unwrap();
    pool.run(|tx| {
        let mut next = None;
        for number in (0..HOUSES).rev() {
            let new = tx.alloc(house(number))?;
            let this = if number == 0 { root } else { &*new };
            this.name.set(tx, &format!("the house {number}"))?;
            let outer = tx.alloc(garden())?;
            outer.trees.extend_from_slice(tx, &[number as u16, 2, 3])?;
            outer.left.set(tx, tx.alloc(garden())?)?;
            outer.right.set(tx, tx.alloc(garden())?)?;
            this.garden.set(tx, outer)?;
            for room in 0..3 {
                let room = tx.alloc(Room { area: number * 10 + room, doors: PHashMap::new() })?;
                let room = this.rooms.push(tx, room)?;
                room.doors.insert(tx, number as u8, room.area as u16)?;
            }
            if let Some(next) = next.take() {
                this.next.set(tx, next)?;
            }
            next = (number > 0).then_some(new);
        }
        Ok::<_, HeapError>(())
    })
    .unwrap();
    pool.close().unwrap();
    std::fs::read(&path).unwrap()
}

fn load(medium: &Mapping, at: PoolOffset) -> u64 {
    medium.memory().reading(|memory| memory.load8(at)).unwrap()
}

/// All that the root of a pool reaches.
#[derive(Debug, Default, PartialEq)]
struct Content {
    /// Values, by their ways.
    values: BTreeMap<String, String>,
    /// Words and targets of the pointers, by their ways.
    pointers: BTreeMap<String, (PoolOffset, PoolOffset)>,
}

impl TypedVisitor for Content {
    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        if let Some(word) = place.pointer().and_then(|pointer| pointer.word()) {
            assert_eq!(self.pointers.insert(place.path(), (word, place.at())), None);
        }
        true
    }

    fn value(&mut self, place: &TypedPlace<'_>, text: &dyn Fn() -> String) {
        self.values.insert(place.path(), text());
    }

    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage) {
        panic!("{}: {damage:?}", place.path());
    }
}

impl Content {
    fn of<M: Medium>(medium: &Arc<M>) -> Content {
        let header = *Headers::read(&**medium).unwrap().current();
        let opened = Heap::open(Arc::clone(medium), &header.geometry, *header.uuid.as_bytes(), [5, 6]);
        let (heap, _) = opened.unwrap();
        let mut content = Content::default();
        TypedSurvey::open(&heap).unwrap().unwrap().visit(&mut content);
        heap.close().unwrap();
        content
    }

    /// Returns the content with the last room of a house in the place of the first two.
    fn with_last_room_alone(mut self, house: &str) -> Content {
        let moved = |path: &str| {
            let rest = path.strip_prefix(&format!("{house}.rooms["))?;
            Some(rest.strip_prefix("2]").map(|rest| format!("{house}.rooms[0]{rest}")))
        };
        let new_path = |path: String| moved(&path).unwrap_or(Some(path));
        let values = std::mem::take(&mut self.values).into_iter();
        self.values = values.filter_map(|(path, value)| Some((new_path(path)?, value))).collect();
        let first = self.pointers[&format!("{house}.rooms[0]")].0;
        let is_element = |path: &str| path == format!("{house}.rooms[2]");
        let pointers = std::mem::take(&mut self.pointers).into_iter();
        let pointers = pointers.filter_map(|(path, (word, at))| {
            let word = if is_element(&path) { first } else { word };
            Some((new_path(path)?, (word, at)))
        });
        self.pointers = pointers.collect();
        self
    }

    /// Returns the content without all that is on some ways.
    fn without(mut self, ways: &[&str]) -> Content {
        let is_kept = |path: &String| !ways.iter().any(|way| path.starts_with(way));
        self.values.retain(|path, _| is_kept(path));
        self.pointers.retain(|path, _| is_kept(path));
        self
    }
}

/// Repairs the pool. It is sound then, and a second repair finds nothing to do.
#[track_caller]
fn repair(medium: &Arc<Mapping>) -> Repair {
    let repair = repair_pool(medium, LOG_EPOCH, &[]).unwrap();
    assert!(repair.after.is_clean() && repair.after.traced, "{}", repair.after);
    let again = repair_pool(medium, [79, 80], &[]).unwrap();
    assert_eq!((again.repaired, &again.typed), (0, &TypedRepair::default()));
    repair
}

/// Returns paths and type names.
fn names<'a>(objects: impl IntoIterator<Item = &'a TypedObject>) -> Vec<(String, String)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    objects.into_iter().map(|object| (text(&object.path), text(&object.type_name))).collect()
}

fn pair(path: &str, name: &str) -> (String, String) {
    (path.to_owned(), name.to_owned())
}

#[test]
fn sound_pool_is_unchanged() {
    let medium = memory(&town());
    let before = Content::of(&medium);
    assert_eq!(before.values["House.next{3}.garden.trees[0]"], "3");
    let repair = repair(&medium);
    assert_eq!((repair.repaired, repair.has_losses()), (0, false));
    assert_eq!(Content::of(&medium), before);
}

#[test]
fn leaks_are_freed() {
    let medium = memory(&town());
    let before = Content::of(&medium);
    // Nothing leads to the last house and what it owns any more.
    medium.store8(before.pointers["House.next{5}"].0, 0);
    let repair = repair(&medium);
    assert!(!repair.has_losses());
    let freed = names(&repair.typed.freed);
    let count = |name: &str| freed.iter().filter(|(_, found)| found == name).count();
    assert_eq!((count("House"), count("Garden"), count("PString"), count("PVec<u16>")), (1, 3, 1, 1));
    assert_eq!((count("Room"), count("PHashMap<u8, u16>"), count("PVec<PBox<Room>>")), (3, 3, 1));
    assert_eq!(Content::of(&medium), before.without(&["House.next{5}"]));
}

/// A flipped bit in any pointer is put right, and nothing is lost. Two pointers to one object may both be the flipped one: then one
/// of them is named.
#[test]
fn flipped_bits_of_pointers_are_put_right() {
    let bytes = town();
    let before = Content::of(&memory(&bytes));
    let mut named = 0;
    for (path, (word, at)) in &before.pointers {
        for bit in (0..22).chain([40, 63]) {
            let medium = memory(&bytes);
            medium.store8(*word, at.get() ^ 1 << bit);
            let repair = repair_pool(&medium, LOG_EPOCH, &[]).unwrap();
            let typed = &repair.typed;
            assert!(repair.after.is_clean() && repair.after.traced, "{path}, bit {bit}: {}", repair.after);
            assert!(typed.lost.is_empty() && typed.freed.is_empty(), "{path}, bit {bit}: {typed:?}");
            assert!(typed.reallocated.is_empty(), "{path}, bit {bit}: {typed:?}");
            let content = Content::of(&medium);
            match &typed.relinked[..] {
                [] => assert_eq!(content, before, "{path}, bit {bit}"),
                [(_, LossReason::TwoOwners)] => named += 1,
                others => panic!("{path}, bit {bit}: {others:?}"),
            }
            assert_eq!(content.values.len(), before.values.len(), "{path}, bit {bit}");
        }
    }
    let all = before.pointers.len() * 24;
    assert!(named > 0 && named * 10 < all, "{named} of {all}");
}

/// The only object without an owner belongs to the only pointer that lacks one.
#[test]
fn overwritten_pointer_is_found_again() {
    let bytes = town();
    let before = Content::of(&memory(&bytes));
    for path in ["House.next{2}", "House.garden", "House.next.name", "House.next{4}.garden.trees"] {
        let medium = memory(&bytes);
        medium.store8(before.pointers[path].0, 0x0BAD_BAD0_BAD8);
        let repair = repair(&medium);
        let is_ambiguous = path == "House.garden";
        let typed = &repair.typed;
        let (relinked, lost) = (names(typed.relinked.iter().map(|(object, _)| object)), &typed.lost);
        assert_eq!((relinked.len(), lost.len()), (usize::from(!is_ambiguous), usize::from(is_ambiguous)));
        let expected = if is_ambiguous {
            Content::of(&memory(&bytes)).without(&[path])
        } else {
            Content::of(&memory(&bytes))
        };
        assert_eq!(Content::of(&medium), expected, "{path}");
        assert!(repair.has_losses());
    }
}

/// Pointers to objects that can't be told apart are cleared and named. The objects are freed; all else stays.
#[test]
fn lost_objects_are_named() {
    let bytes = town();
    let medium = memory(&bytes);
    let before = Content::of(&medium);
    let ways =
        ["House.garden.left", "House.next{2}.garden.right", "House.next{3}.name", "House.next{4}.name"];
    for way in ways {
        medium.store8(before.pointers[way].0, 0x0BAD_BAD0_BAD8);
    }
    let repair = repair(&medium);
    let mut lost = names(repair.typed.lost.iter().map(|(object, _)| object));
    lost.sort();
    assert_eq!(
        lost,
        [
            pair(ways[0], "Garden"),
            pair(ways[1], "Garden"),
            pair(ways[2], "PString"),
            pair(ways[3], "PString"),
        ]
    );
    assert!(repair.typed.lost.iter().all(|(_, reason)| *reason == LossReason::NoObject));
    assert_eq!(repair.typed.freed.len(), 4);
    let mut expected = before.without(&ways);
    for way in &ways[2..] {
        expected.values.insert((*way).to_owned(), "\"\"".to_owned());
    }
    assert_eq!(Content::of(&medium), expected);
}

/// Lost elements of a vector of boxes leave it, and those after them move up: no element is null.
#[test]
fn lost_elements_leave_their_vectors() {
    let bytes = town();
    for lost_word in [0x0BAD_BAD0_BAD8, 0] {
        let medium = memory(&bytes);
        let before = Content::of(&medium);
        let ways = ["House.next.rooms[0]", "House.next.rooms[1]"];
        for way in ways {
            medium.store8(before.pointers[way].0, lost_word);
        }
        let repair = repair(&medium);
        let lost = repair.typed.lost.iter().map(|(object, reason)| (names([object]), *reason));
        let want = ways.map(|way| (vec![pair(way, "Room")], LossReason::NoObject));
        assert_eq!(lost.collect::<Vec<_>>(), want);
        let mut freed = names(&repair.typed.freed);
        freed.sort();
        let [room, doors] = ["Room", "PHashMap<u8, u16>"].map(|name| pair("", name));
        assert_eq!(freed, [doors.clone(), doors, room.clone(), room]);
        assert_eq!(Content::of(&medium), before.with_last_room_alone("House.next"));
    }
}

/// A null element gets its object again, if no other pointer lacks it.
#[test]
fn null_element_is_found_again() {
    let medium = memory(&town());
    let before = Content::of(&medium);
    medium.store8(before.pointers["House.next.rooms[1]"].0, 0);
    let repair = repair(&medium);
    let relinked = names(repair.typed.relinked.iter().map(|(object, _)| object));
    assert_eq!(relinked, [pair("House.next.rooms[1]", "Room")]);
    assert!(repair.typed.lost.is_empty() && repair.typed.freed.is_empty(), "{repair:?}");
    assert_eq!(Content::of(&medium), before);
}

/// Of two pointers to one object, the one that was there stays.
#[test]
fn second_owner_is_cleared() {
    let medium = memory(&town());
    let before = Content::of(&medium);
    let last = PoolOffset::new(before.pointers["House.next{5}"].1.get() + offset_of!(House, next) as u64);
    medium.store8(last, before.pointers["House.next{2}"].1.get());
    let repair = repair(&medium);
    let lost = repair.typed.lost.iter().map(|(object, reason)| (names([object]), *reason));
    let lost: Vec<_> = lost.collect();
    assert_eq!(lost, [(vec![pair("House.next{6}", "House")], LossReason::TwoOwners)]);
    assert_eq!(Content::of(&medium), before);
}

/// Allocation bits that are lost are set again for all that the root reaches.
#[test]
fn lost_bitmaps_are_made_again() {
    let bytes = town();
    let before = Content::of(&memory(&bytes));
    let houses = before.pointers["House.next"].1.get() / CHUNK * CHUNK;
    for word in [checked(0), 0, u64::MAX] {
        let medium = memory(&bytes);
        medium.store8(PoolOffset::new(houses + SPAN_HEADER), word);
        let repair = repair(&medium);
        assert_eq!(repair.typed.reallocated.len() as u64, HOUSES, "{:?}", repair.typed);
        assert!(repair.has_losses() && repair.typed.freed.is_empty() && repair.typed.lost.is_empty());
        assert_eq!(Content::of(&medium), before);
    }
}

/// Without the header of their blocks, the gardens are lost, each by its name. What they owned is freed; all else stays.
#[test]
fn objects_without_block_header_are_named() {
    let medium = memory(&town());
    let before = Content::of(&medium);
    let gardens = before.pointers["House.garden"].1.get() / CHUNK * CHUNK;
    for word in 0..SPAN_HEADER / WORD {
        medium.store8(PoolOffset::new(gardens + word * WORD), 0x5555_1234_9876_0001);
    }
    let repair = repair(&medium);
    let mut lost = names(repair.typed.lost.iter().map(|(object, _)| object));
    lost.sort();
    let way = |number| match number {
        0 => "House.garden".to_owned(),
        1 => "House.next.garden".to_owned(),
        _ => format!("House.next{{{number}}}.garden"),
    };
    let want: Vec<_> = (0..HOUSES).map(|number| pair(&way(number), "Garden")).collect();
    assert_eq!(lost, want);
    let freed = names(&repair.typed.freed);
    assert_eq!(freed, vec![pair("", "PVec<u16>"); HOUSES as usize]);
    let ways: Vec<String> = (0..HOUSES).map(way).collect();
    let ways: Vec<&str> = ways.iter().map(String::as_str).collect();
    assert_eq!(Content::of(&medium), before.without(&ways));
}

/// Values, lengths and texts that are none stay as they are, and are named by the check after the repair.
#[test]
fn values_are_not_invented() {
    let medium = memory(&town());
    let before = Content::of(&medium);
    let (name, trees) = (before.pointers["House.name"], before.pointers["House.garden.trees"]);
    medium.store8(name.1, u64::MAX);
    medium.store8(trees.0.plus(WORD), 1000);
    for _ in 0..2 {
        let repair = repair_pool(&medium, LOG_EPOCH, &[]).unwrap();
        let mut found: Vec<_> =
            repair.after.findings.iter().map(|finding| finding.path.clone().unwrap()).collect();
        found.sort();
        assert_eq!(found, ["House.garden.trees", "House.name"]);
        assert_eq!(repair.typed, TypedRepair::default());
        assert_eq!([load(&medium, name.1), load(&medium, trees.0.plus(WORD))], [u64::MAX, 1000]);
    }
}

/// Offsets of the root word, the root object and the type table.
fn frame(medium: &Mapping) -> [PoolOffset; 3] {
    let root_word = Headers::read(medium).unwrap().geometry().extents()[0].start;
    let root = decode_root(load(medium, root_word)).unwrap();
    let typed = TypedRoot::decode([0, 8, 16, 24].map(|word| load(medium, root.plus(word)))).unwrap();
    [root_word, root, typed.types]
}

#[test]
fn damaged_frame_is_put_right() {
    let bytes = town();
    let before = Content::of(&memory(&bytes));
    let [root_word, root, types] = frame(&memory(&bytes));
    let flips = |at: PoolOffset, words: u64| {
        (0..words * 64).map(move |bit| (at.plus(bit / 64 * WORD), 1_u64 << (bit % 64)))
    };
    let lost = [(root_word, u64::MAX), (root.plus(8), 0x0BAD_BAD0)];
    // Every bit of the words that lead to others, and of the header of the table; some of the table's.
    let table = flips(types.plus(40), 20).step_by(37);
    for (at, changed) in
        flips(root_word, 1).chain(flips(root, 3)).chain(flips(types, 5)).chain(table).chain(lost)
    {
        let medium = memory(&bytes);
        medium.store8(at, load(&medium, at) ^ changed);
        let repair = repair(&medium);
        assert!(!repair.has_losses() && !repair.unknown_layout, "{at}, {changed:#x}: {repair:?}");
        assert_eq!(Content::of(&medium), before, "{at}, {changed:#x}");
    }
}

/// Without its types, nothing in a pool is changed.
#[test]
fn pool_without_types_is_left_alone() {
    let medium = memory(&town());
    let [_, root, types] = frame(&medium);
    let first = root_of(&medium);
    (0..4).for_each(|word| medium.store8(types.plus(48 + 8 * word), 77));
    let objects = |medium: &Mapping| {
        let mut bytes = vec![0; (medium.memory().len() - 2 * CHUNK) as usize];
        let at = PoolOffset::new(medium.memory().len() - bytes.len() as u64);
        medium.memory().reading(|memory| memory.read(at, &mut bytes)).unwrap();
        (bytes, load(medium, root), load(medium, first))
    };
    let before = objects(&medium);
    let repair = repair_pool(&medium, LOG_EPOCH, &[]).unwrap();
    assert!(repair.unknown_layout && repair.after.is_damaged(), "{}", repair.after);
    assert!(objects(&medium) == before);
}

fn root_of(medium: &Mapping) -> PoolOffset {
    let [_, root, _] = frame(medium);
    decode_root(load(medium, root)).unwrap()
}

lode_heap::brand!(Line);

/// An object of several pages, of which the last ones can be lost.
#[derive(Persist)]
#[persist(brand = Line)]
#[repr(C)]
struct Wagon {
    number: u64,
    next: PBox<Wagon, Line>,
    load: [u64; 3900],
}

#[derive(Persist)]
#[persist(brand = Line)]
#[repr(C)]
struct Train {
    first: PBox<Wagon, Line>,
}

/// A list loses the object that can't be read, and nothing else.
#[test]
fn unreadable_object_is_unlinked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let layout = LayoutName::new("line").unwrap();
    let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(4 << 20, layout) };
    let pool = TypedPool::<Line>::create(&path, &options).unwrap();
    let wagon = |number| Wagon { number, next: PBox::null(), load: [number; 3900] };
    let root = pool.root_or_init(|_| Ok::<_, HeapError>(Train { first: PBox::null() })).unwrap();
    // The second wagon comes last, and so lies last in the pool.
    pool.run(|tx| {
        let (first, third) = (tx.alloc(wagon(1))?, tx.alloc(wagon(3))?);
        let second = tx.alloc(wagon(2))?;
        second.next.set(tx, third)?;
        first.next.set(tx, second)?;
        root.first.set(tx, first)
    })
    .unwrap();
    let last = pool.objects().map(|object| object.unwrap()).max_by_key(|object| object.at).unwrap();
    assert!(last.size > 30_000, "it is a wagon");
    let last = last.at;
    pool.close().unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let options = Mapping::options().durability(Durability::Line);
    let medium = Arc::new(options.map_file(file.try_clone().unwrap(), "the pool").unwrap());
    file.set_len(last.get().next_multiple_of(4096) + 4096).unwrap();
    let repair = repair_pool(&medium, LOG_EPOCH, &[]).unwrap();
    assert!(repair.after.is_clean() && repair.after.traced, "{}", repair.after);
    let relinked = repair.typed.relinked.iter().map(|(object, reason)| (names([object]), *reason));
    assert_eq!(
        relinked.collect::<Vec<_>>(),
        [(vec![pair("Train.first.next", "Wagon")], LossReason::Unreadable)]
    );
    assert_eq!(names(&repair.typed.freed), [pair("", "Wagon")]);
    let values = Content::of(&medium).values;
    assert_eq!(values["Train.first.next.number"], "3");
}

/// Killed before any of its stores, a repair is finished by the next one, with the same content.
#[test]
fn killed_repair_is_finished() {
    let mut bytes = town();
    let before = Content::of(&memory(&bytes));
    let ways = ["House.garden.left", "House.next{2}.garden.right"];
    let [root_word, _, types] = frame(&memory(&bytes));
    let names = before.pointers["House.name"].1.get() / CHUNK * CHUNK;
    let mut change = |at: PoolOffset, by: u64| {
        let word = &mut bytes[at.get() as usize..][..8];
        let changed = u64::from_le_bytes(word.try_into().unwrap()) ^ by;
        word.copy_from_slice(&changed.to_le_bytes());
    };
    // A flipped bit of the root word and of the table, a bitmap, a flipped pointer, two lost objects.
    change(root_word, 1 << 20);
    change(types.plus(48), 1 << 5);
    change(PoolOffset::new(names + SPAN_HEADER), 0x55);
    change(before.pointers["House.next{3}"].0, 1 << 6);
    ways.iter().for_each(|way| change(before.pointers[*way].0, 0x0BAD_BAD0_BAD8));
    // Two lost elements.
    for way in ["House.next{4}.rooms[0]", "House.next{4}.rooms[1]"] {
        change(before.pointers[way].0, 0x0BAD_BAD0_BAD8);
    }
    let expected = before.without(&ways).with_last_room_alone("House.next{4}");
    std::panic::set_hook(Box::new(|_| ()));
    let mut stops = 0;
    for stores in 0.. {
        let medium = memory(&bytes);
        let killed = KilledMedium::on(&medium, stores, None);
        let ended = catch_unwind(AssertUnwindSafe(|| repair_pool(&killed, LOG_EPOCH, &[]).unwrap()));
        if ended.is_ok() {
            break;
        }
        stops += 1;
        repair(&medium);
        assert_eq!(Content::of(&medium), expected, "killed before store {stores}");
    }
    let _ = std::panic::take_hook();
    assert!(stops > 20, "{stops}");
}
