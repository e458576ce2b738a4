//! A repair of typed data keeps each entry of a damaged map that is sound, or names the range of keys where one is lost.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::damage::damage;
use crate::interrupted_repair_can_be_repeated::{SHUTDOWNS, kill_at_each_store};
use lode_fsck::{Repair, repair_pool};
use lode_heap::{HeapError, MapPart, PBox, Persist, TypedDamage, TypedHeap, TypedPlace, TypedVisitor};
use lode_index::{PMap, StoreLayout, visit_map};
use lode_layout::{PoolOffset, SlotKind, TYPE_LEAF, TreeSlot, encode_key};
use lode_pmem::Mapping;
use lode_pool::Headers;
use lode_testing::{kv, memory, scaled, seed};
use std::collections::BTreeMap;
use std::sync::Arc;

lode_heap::brand!(Shop);

const LOG_EPOCH: [u64; 2] = [61, 62];

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Store {
    stock: PMap<String, u32, Shop>,
    shelf: PBox<Shelf, Shop>,
}

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Shelf {
    seats: PMap<u64, u64, Shop>,
    /// A map of the types of the first one.
    labels: PMap<String, u32, Shop>,
}

/// The paths of the maps.
const STOCK: &str = "Store.stock";
const SEATS: &str = "Store.shelf.seats";
const LABELS: &str = "Store.shelf.labels";

/// The entries by the paths of their maps, with their keys as bytes and their values.
type Content = BTreeMap<(&'static str, Vec<u8>), String>;

/// Makes a pool with three maps, in which all kinds of nodes are. Returns its content.
fn pool() -> (Vec<u8>, Content) {
    let heap = kv::create_empty(1 << 20, "shop");
    let medium = Arc::clone(heap.medium());
    let heap = TypedHeap::<Shop, _>::new(heap);
    let store = heap.root_or_init(|_| Ok(Store { stock: PMap::new(), shelf: PBox::null() })).unwrap();
    let mut content = Content::new();
    let mut note = |path, key, value: u64| {
        content.insert((path, key), value.to_string());
    };
    heap.run(|tx| {
        store.shelf.set(tx, tx.alloc(Shelf { seats: PMap::new(), labels: PMap::new() })?)?;
        let shelf = store.shelf.get(tx)?.unwrap();
        for number in 0..60 {
            let name = format!("item {number}");
            store.stock.insert(tx, &name, number as u32)?;
            note(STOCK, encode_key::<String>(&name), number);
            shelf.seats.insert(tx, number * 5, number)?;
            note(SEATS, encode_key::<u64>(&(number * 5)), number);
        }
        for number in 0..20 {
            let name = format!("label {number}");
            shelf.labels.insert(tx, &name, number as u32)?;
            note(LABELS, encode_key::<String>(&name), number);
        }
        Ok::<_, HeapError>(())
    })
    .unwrap();
    heap.close().unwrap();
    (memory::bytes(&medium), content)
}

/// Collects the objects of maps and their entries.
#[derive(Default)]
struct Found {
    content: BTreeMap<String, String>,
    maps: BTreeMap<String, PoolOffset>,
}

impl TypedVisitor for Found {
    fn object(&mut self, place: &TypedPlace<'_>) -> bool {
        if place.pointer().is_some_and(|pointer| pointer.is_map()) {
            self.maps.insert(place.path(), place.at());
        }
        true
    }

    fn value(&mut self, place: &TypedPlace<'_>, text: &dyn Fn() -> String) {
        self.content.insert(place.path(), text());
    }

    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage) {
        panic!("{}: {damage:?}", place.path());
    }
}

fn found(medium: &Arc<Mapping>) -> Found {
    let heap = kv::open(medium, [7, 7]).unwrap();
    let mut found = Found::default();
    let survey = lode_heap::TypedSurvey::open(&heap).unwrap().unwrap();
    survey.with_maps(visit_map).visit(&mut found);
    heap.close().unwrap();
    found
}

/// Returns the entries of a sound pool.
fn content(medium: &Arc<Mapping>) -> Content {
    let maps = found(medium).maps;
    let heap = kv::open(medium, [7, 8]).unwrap();
    let mut content = Content::new();
    for path in [STOCK, SEATS, LABELS] {
        let Some(root) = maps.get(path) else { continue };
        visit_map(&heap, *root, &mut |part| {
            if let MapPart::Entry { key, value, .. } = part {
                let mut number = [0; 8];
                let value = value();
                number[..value.len()].copy_from_slice(&value);
                content.insert((path, key.to_vec()), u64::from_le_bytes(number).to_string());
            }
            true
        });
    }
    heap.close().unwrap();
    content
}

/// Repairs the pool. It is sound then, a second repair finds nothing to do, and each entry is there or was reported.
#[track_caller]
fn repair(medium: &Arc<Mapping>, want: &Content) -> Repair {
    let repair = repair_pool(medium, LOG_EPOCH, &[&StoreLayout]).unwrap();
    assert!(repair.after.is_clean() && repair.after.traced, "{}", repair.after);
    let again = repair_pool(medium, [71, 72], &[&StoreLayout]).unwrap();
    assert!(again.repaired == 0 && !again.has_losses() && again.typed.freed.is_empty(), "{again:?}");
    let content = content(medium);
    for ((path, key), value) in want {
        let there = content.get(&(*path, key.clone()));
        let is_lost = repair.typed.lost.iter().filter_map(|(object, _)| object.path.as_deref());
        let told = repair.lost.iter().any(|range| range.tree.as_deref() == Some(path) && range.contains(key))
            || is_lost.into_iter().any(|lost| path.starts_with(lost));
        assert!(there == Some(value) || told, "{path} {key:?}: {there:?}, {repair:?}");
    }
    assert!(content.iter().all(|(key, value)| want.get(key) == Some(value)), "{repair:?}");
    repair
}

/// Returns the objects of the maps, nodes and leaves, with their type numbers.
fn parts(medium: &Arc<Mapping>, path: &str) -> Vec<(PoolOffset, u64, u64)> {
    let root = found(medium).maps[path];
    let heap = kv::open(medium, [7, 9]).unwrap();
    let mut parts = Vec::new();
    visit_map(&heap, root, &mut |part| {
        if let MapPart::Object(at) = part {
            parts.push(at);
        }
        true
    });
    let object = |at| heap.object(at).unwrap();
    let parts = parts.into_iter().map(|at| (at, object(at).size, object(at).type_number)).collect();
    heap.close().unwrap();
    parts
}

#[test]
fn sound_maps_are_unchanged() {
    let (bytes, want) = pool();
    let medium = Arc::new(memory::from_bytes(&bytes));
    let repair = repair(&medium, &want);
    assert!(repair.repaired == 0 && !repair.has_losses(), "{repair:?}");
    assert_eq!(content(&medium), want);
}

/// One flipped bit anywhere in a map loses nothing.
#[test]
fn flipped_bits_lose_nothing() {
    let (bytes, want) = pool();
    let sound = Arc::new(memory::from_bytes(&bytes));
    let mut random = fastrand::Rng::with_seed(seed(5));
    for path in [STOCK, SEATS, LABELS] {
        for (at, size, _) in parts(&sound, path) {
            for word in 0..size / 8 {
                let mut bytes = bytes.clone();
                let bit = random.u64(..64);
                bytes[(at.get() + word * 8 + bit / 8) as usize] ^= 1 << (bit % 8);
                let medium = Arc::new(memory::from_bytes(&bytes));
                repair(&medium, &want);
                assert!(content(&medium) == want, "{path}: {at}, word {word}, bit {bit}");
            }
        }
    }
}

/// Sound entries below a node that is lost come back, also beside another map of the same types.
#[test]
fn entries_of_lost_nodes_come_back() {
    let (bytes, want) = pool();
    for path in [STOCK, SEATS, LABELS] {
        let mut bytes = bytes.clone();
        let parts = parts(&Arc::new(memory::from_bytes(&bytes)), path);
        let (node, ..) = parts.iter().skip(1).find(|(_, _, number)| *number != TYPE_LEAF).unwrap();
        bytes[node.get() as usize..][..64].fill(0xA5);
        let medium = Arc::new(memory::from_bytes(&bytes));
        let repair = repair(&medium, &want);
        assert!(repair.reinserted > 0 && !repair.has_losses(), "{path}: {repair:?}");
        assert!(content(&medium) == want, "{path}");
    }
}

/// A leaf that is overwritten is named by the map and its neighbours.
#[test]
fn lost_entries_are_named() {
    let (bytes, want) = pool();
    let mut damaged = bytes.clone();
    let parts = parts(&Arc::new(memory::from_bytes(&bytes)), SEATS);
    let leaves: Vec<_> = parts.iter().filter(|(_, _, number)| *number == TYPE_LEAF).collect();
    damaged[leaves[7].0.get() as usize..][..32].fill(0x77);
    let medium = Arc::new(memory::from_bytes(&damaged));
    let repair = repair(&medium, &want);
    let [range] = &repair.lost[..] else { panic!("{repair:?}") };
    assert_eq!(range.tree.as_deref(), Some(SEATS));
    assert_eq!(want.len(), content(&medium).len() + 1);
    assert_eq!((&range.after, &range.before), (&Some(encode_key::<u64>(&30)), &Some(encode_key::<u64>(&40))));
}

/// A program that does not know maps leaves such a pool alone.
#[test]
fn unknown_maps_are_left_alone() {
    let (mut bytes, _) = pool();
    let (node, ..) = parts(&Arc::new(memory::from_bytes(&bytes)), STOCK)[1];
    bytes[node.get() as usize..][..64].fill(0xA5);
    let medium = Arc::new(memory::from_bytes(&bytes));
    let repair = repair_pool(&medium, LOG_EPOCH, &[]).unwrap();
    assert!(repair.unknown_layout, "{repair:?}");
    let heap = kv::open(&medium, [7, 7]).unwrap();
    assert!(heap.object(node).is_ok());
}

/// Damage anywhere in the objects of the maps, of any kind.
#[test]
fn any_damage_is_named() {
    let (bytes, want) = pool();
    let sound = Arc::new(memory::from_bytes(&bytes));
    let parts = [STOCK, SEATS, LABELS].map(|path| parts(&sound, path)).concat();
    let ranges: Vec<_> = parts.iter().map(|(at, size, _)| at.get()..at.get() + size).collect();
    let mut random = fastrand::Rng::with_seed(seed(6));
    let mut lost = 0;
    for _ in 0..scaled(200) {
        let mut bytes = bytes.clone();
        damage(&mut bytes, &ranges, &mut random);
        lost += u64::from(repair(&Arc::new(memory::from_bytes(&bytes)), &want).has_losses());
    }
    assert!(lost > 0);
}

/// A loose entry that may be of two maps goes to neither, wherever a repair is killed.
#[test]
fn killed_repair_gives_no_entry_to_another_map() {
    let (mut bytes, want) = pool();
    let sound = Arc::new(memory::from_bytes(&bytes));
    let leaves = |path| {
        let parts = parts(&sound, path).into_iter();
        parts.filter(|(_, _, number)| *number == TYPE_LEAF).map(|(at, ..)| at).collect::<Vec<_>>()
    };
    // One map has lost the slot of an entry, and the other one an entry.
    let loose = leaves(STOCK)[3];
    for (at, size, _) in parts(&sound, STOCK).into_iter().filter(|(_, _, number)| *number != TYPE_LEAF) {
        for word in bytes[at.get() as usize..][..size as usize].chunks_exact_mut(8) {
            let slot = TreeSlot::from_word(u64::from_le_bytes(word.try_into().unwrap()));
            if slot.kind() == SlotKind::Leaf && slot.at() == loose {
                word.fill(0);
            }
        }
    }
    bytes[leaves(LABELS)[2].get() as usize..][..32].fill(0x77);
    let medium = || {
        let medium = Arc::new(memory::from_bytes(&bytes));
        Headers::read(&*medium).unwrap().set_dirty_shutdowns(&*medium, Some(SHUTDOWNS)).unwrap();
        medium
    };
    kill_at_each_store(medium, &StoreLayout, |medium, stores| {
        let content = content(medium);
        assert_eq!(content.len() + 2, want.len(), "killed before store {stores}");
        assert!(
            content.iter().all(|(key, value)| want.get(key) == Some(value)),
            "killed before store {stores}"
        );
    });
}

/// Killed before any of its stores, a repair is finished by the next one, with the same entries.
#[test]
fn killed_repair_of_maps_is_finished() {
    let (mut bytes, mut want) = pool();
    let sound = Arc::new(memory::from_bytes(&bytes));
    let [stock, seats] = [STOCK, SEATS].map(|path| parts(&sound, path));
    let (node, ..) = stock.iter().skip(1).find(|(_, _, number)| *number != TYPE_LEAF).unwrap();
    let (leaf, ..) = seats.iter().find(|(_, _, number)| *number == TYPE_LEAF).unwrap();
    bytes[node.get() as usize..][..64].fill(0xA5);
    bytes[leaf.get() as usize..][..32].fill(0x77);
    want.remove(&(SEATS, encode_key::<u64>(&0)));
    let medium = || {
        let medium = Arc::new(memory::from_bytes(&bytes));
        Headers::read(&*medium).unwrap().set_dirty_shutdowns(&*medium, Some(SHUTDOWNS)).unwrap();
        medium
    };
    kill_at_each_store(medium, &StoreLayout, |medium, stores| {
        assert!(content(medium) == want, "killed before store {stores}");
    });
}
