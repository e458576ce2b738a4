//! A repair of a pool of typed data with trees keeps the typed data, and of damaged trees each entry that is sound, or names the range
//! of keys where one is lost.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::damage::damage;
use crate::interrupted_repair_can_be_repeated::{SHUTDOWNS, kill_at_each_store};
use lode_fsck::{Repair, check_pool, repair_pool};
use lode_heap::structure::raw_tx;
use lode_heap::{MapPart, PCell, Persist, TypedHeap, raw_heap};
use lode_index::{IndexError, PMap, StoreLayout, Tree, Trees, visit_map};
use lode_layout::{PoolOffset, TYPE_LEAF};
use lode_pmem::Mapping;
use lode_pool::Headers;
use lode_testing::{kv, memory, scaled, seed};
use std::collections::BTreeMap;
use std::sync::Arc;

lode_heap::brand!(Shop);

const LOG_EPOCH: [u64; 2] = [81, 82];

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Store {
    stock: PMap<u64, u64, Shop>,
    sold: PCell<u64, Shop>,
}

/// The trees, with their numbers of keys.
const TREES: [(&str, u64); 3] = [("names", 60), ("places", 20), ("empty", 0)];

/// The entries by the names of their trees, with their keys and their values.
type Content = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn key(number: u64) -> Vec<u8> {
    format!("key {}", number * 7).into_bytes()
}

/// Makes a pool with a map, trees, and a tree that was dropped. Returns the entries of the trees.
fn pool() -> (Vec<u8>, Content) {
    let heap = kv::create_empty(1 << 20, "shop");
    let medium = Arc::clone(heap.medium());
    let heap = TypedHeap::<Shop, _>::new(heap);
    let store = heap.root_or_init(|_| Ok(Store { stock: PMap::new(), sold: PCell::new(7) })).unwrap();
    let mut content = Content::new();
    heap.try_run(|tx| {
        let raw = raw_tx(tx);
        (0..30).try_for_each(|number| store.stock.insert(tx, number, number).map(drop))?;
        let table = Trees::find_or_create_typed_in(raw)?.expect("the pool has a root");
        let trees = Trees::open_in(raw_heap(&heap), raw, table)?;
        for (name, count) in TREES.into_iter().chain([("dropped", 10)]) {
            let tree = trees.create_in(raw, name, "str", "bytes")?;
            let tree = Tree::open_in(raw_heap(&heap), raw, tree.root)?;
            for number in 0..count {
                let value = vec![number as u8; 8 + number as usize];
                tree.insert_in(raw, &key(number), &value)?;
                content.insert((name.to_owned(), key(number)), value);
            }
        }
        trees.drop_in(raw, "dropped")?;
        Ok::<_, IndexError>(())
    })
    .unwrap();
    heap.close().unwrap();
    content.retain(|(name, _), _| name != "dropped");
    (memory::bytes(&medium), content)
}

fn names(heap: &lode_heap::Heap<Arc<Mapping>>) -> Vec<String> {
    let trees = Trees::of_typed(heap).unwrap();
    heap.run(|tx| trees.names_in(tx)).unwrap()
}

/// Returns the entries of the trees of a sound pool. Its typed data is as it was made.
#[track_caller]
fn content(medium: &Arc<Mapping>) -> Content {
    let heap = TypedHeap::<Shop, _>::new(kv::open(medium, [7, 8]).unwrap());
    let store = heap.root::<Store>().unwrap().unwrap();
    let guard = heap.guard();
    assert_eq!(store.sold.load(&guard), Ok(7));
    let stock: Vec<_> = store.stock.load_range(&guard, ..).collect::<Result<_, _>>().unwrap();
    assert_eq!(stock, (0..30).map(|number| (number, number)).collect::<Vec<_>>());
    drop(guard);
    let raw = raw_heap(&heap);
    let mut content = Content::new();
    for name in names(raw) {
        let tree = Trees::of_typed(raw).unwrap().get(&name).unwrap().unwrap();
        for entry in Tree::open(raw, tree.root).unwrap().reader().iter() {
            let entry = entry.unwrap();
            content.insert((name.clone(), entry.key), entry.value.to_vec());
        }
    }
    heap.close().unwrap();
    content
}

/// Repairs the pool. It is sound then, a second repair finds nothing to do, and each entry is there, under the name of its tree or
/// under a new one, or was reported.
#[track_caller]
fn repair(medium: &Arc<Mapping>, want: &Content) -> Repair {
    let repair = repair_pool(medium, LOG_EPOCH, &[&StoreLayout]).unwrap();
    assert!(repair.after.is_clean() && repair.after.traced, "{}", repair.after);
    let again = repair_pool(medium, [71, 72], &[&StoreLayout]).unwrap();
    assert!(again.repaired == 0 && !again.has_losses() && again.typed.freed.is_empty(), "{again:?}");
    assert!(repair.typed.lost.is_empty(), "{repair:?}");
    let content = content(medium);
    let found = || repair.found_trees.iter();
    for ((name, key), value) in want {
        let is_there = |name: &str| content.get(&(name.to_owned(), key.clone())) == Some(value);
        let is_told = |name: &str| {
            repair.lost.iter().any(|range| range.tree.as_deref() == Some(name) && range.contains(key))
        };
        let is_kept = is_there(name) || is_told(name);
        assert!(is_kept || found().any(|name| is_there(name) || is_told(name)), "{name} {key:?}: {repair:?}");
    }
    for ((name, key), value) in &content {
        let is_found = found().any(|found| found == name);
        assert!(
            is_found || want.get(&(name.clone(), key.clone())) == Some(value),
            "{name} {key:?}: {repair:?}"
        );
    }
    repair
}

/// Returns the objects of the table, or of a tree, with their sizes and type numbers.
fn parts(medium: &Arc<Mapping>, name: Option<&str>) -> Vec<(PoolOffset, u64, u64)> {
    let heap = kv::open(medium, [7, 9]).unwrap();
    let root = match name {
        Some(name) => Trees::of_typed(&heap).unwrap().get(name).unwrap().unwrap().root,
        None => lode_heap::trees::get(&heap).unwrap(),
    };
    let mut parts = Vec::new();
    visit_map(&heap, root, &mut |part| {
        if let MapPart::Object(at) = part {
            let object = heap.object(at).unwrap();
            parts.push((at, object.size, object.type_number));
        }
        true
    });
    heap.close().unwrap();
    parts
}

/// Returns the objects of the table and of all trees.
fn all_parts(medium: &Arc<Mapping>) -> Vec<(PoolOffset, u64, u64)> {
    let names = TREES.iter().map(|(name, _)| Some(*name));
    names.chain([None]).flat_map(|name| parts(medium, name)).collect()
}

#[test]
fn sound_trees_are_unchanged() {
    let (bytes, want) = pool();
    let medium = Arc::new(memory::from_bytes(&bytes));
    let repair = repair(&medium, &want);
    assert!(repair.repaired == 0 && !repair.has_losses(), "{repair:?}");
    assert_eq!(content(&medium), want);
}

/// One flipped bit anywhere in the table or in a tree loses nothing.
#[test]
fn flipped_bits_lose_nothing() {
    let (bytes, want) = pool();
    let mut random = fastrand::Rng::with_seed(seed(5));
    for (at, size, _) in all_parts(&Arc::new(memory::from_bytes(&bytes))) {
        for word in 0..size / 8 {
            let mut bytes = bytes.clone();
            let bit = random.u64(..64);
            bytes[(at.get() + word * 8 + bit / 8) as usize] ^= 1 << (bit % 8);
            let medium = Arc::new(memory::from_bytes(&bytes));
            repair(&medium, &want);
            assert!(content(&medium) == want, "{at}, word {word}, bit {bit}");
        }
    }
}

/// A table that is lost is made again: its entries say themselves what they are.
#[test]
fn lost_table_is_made_again() {
    let (mut bytes, want) = pool();
    let (table, size, _) = parts(&Arc::new(memory::from_bytes(&bytes)), None)[0];
    bytes[table.get() as usize..][..size as usize].fill(0xA5);
    let medium = Arc::new(memory::from_bytes(&bytes));
    repair(&medium, &want);
    assert_eq!(content(&medium), want);
    let heap = kv::open(&medium, [7, 7]).unwrap();
    assert_eq!(names(&heap), ["empty", "names", "places"]);
}

/// A tree whose entry is lost gets another name.
#[test]
fn lost_names_are_told() {
    let (mut bytes, want) = pool();
    let of_table = parts(&Arc::new(memory::from_bytes(&bytes)), None);
    let leaves: Vec<_> = of_table.iter().filter(|(_, _, number)| *number == TYPE_LEAF).collect();
    let (leaf, size, _) = leaves
        .iter()
        .find(|(at, size, _)| {
            let entry = &bytes[at.get() as usize..][..*size as usize];
            entry.windows(5).any(|part| part == b"names")
        })
        .unwrap();
    bytes[leaf.get() as usize..][..*size as usize].fill(0x77);
    let medium = Arc::new(memory::from_bytes(&bytes));
    let repair = repair(&medium, &want);
    assert_eq!((&repair.found_trees[..], repair.lost_names.len()), (&["lost+found/1".to_owned()][..], 1));
    let found = content(&medium).into_keys().filter(|(name, _)| name == "lost+found/1").count();
    assert_eq!(found, 60);
}

/// Damage of a tree is found by a check, which names the tree, and so does the repair.
#[test]
fn lost_entries_are_named() {
    let (bytes, want) = pool();
    let leaves = parts(&Arc::new(memory::from_bytes(&bytes)), Some("places"));
    let (leaf, ..) = leaves.iter().filter(|(_, _, number)| *number == TYPE_LEAF).nth(4).unwrap();
    let mut damaged = bytes;
    damaged[leaf.get() as usize..][..32].fill(0x77);
    let report = check_pool(Arc::new(memory::from_bytes(&damaged)), &[&StoreLayout]);
    let paths: Vec<_> = report.findings.iter().filter_map(|finding| finding.path.as_deref()).collect();
    assert!(!paths.is_empty() && paths.iter().all(|path| *path == "tree \"places\""), "{report}");
    let medium = Arc::new(memory::from_bytes(&damaged));
    let repair = repair(&medium, &want);
    let [range] = &repair.lost[..] else { panic!("{repair:?}") };
    assert_eq!(range.tree.as_deref(), Some("places"));
    assert_eq!(want.len(), content(&medium).len() + 1);
}

/// A program that does not know trees finds no leak in them, and repairs nothing.
#[test]
fn unknown_trees_are_left_alone() {
    let (bytes, want) = pool();
    let report = check_pool(Arc::new(memory::from_bytes(&bytes)), &[]);
    assert!(report.is_clean() && !report.traced, "{report}");
    let medium = Arc::new(memory::from_bytes(&bytes));
    let repair = repair_pool(&medium, LOG_EPOCH, &[]).unwrap();
    assert!(repair.unknown_layout, "{repair:?}");
    assert_eq!(content(&medium), want);
}

/// Damage anywhere in the table and in the trees, of any kind.
#[test]
fn any_damage_is_named() {
    let (bytes, want) = pool();
    let parts = all_parts(&Arc::new(memory::from_bytes(&bytes)));
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

/// Killed before any of its stores, a repair is finished by the next one, with the same entries.
#[test]
fn killed_repair_of_trees_is_finished() {
    let (mut bytes, want) = pool();
    let sound = Arc::new(memory::from_bytes(&bytes));
    let (table, names) = (parts(&sound, None), parts(&sound, Some("names")));
    let (node, ..) = names.iter().skip(1).find(|(_, _, number)| *number != TYPE_LEAF).unwrap();
    bytes[node.get() as usize..][..64].fill(0xA5);
    bytes[table[0].0.get() as usize..][..64].fill(0xA5);
    let medium = || {
        let medium = Arc::new(memory::from_bytes(&bytes));
        Headers::read(&*medium).unwrap().set_dirty_shutdowns(&*medium, Some(SHUTDOWNS)).unwrap();
        medium
    };
    kill_at_each_store(medium, &StoreLayout, |medium, stores| {
        assert!(content(medium) == want, "killed before store {stores}");
    });
}
