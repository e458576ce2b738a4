//! A lookup or a scan of a damaged pool returns the value that was stored, or an error: never another value, and a
//! key whose leaf is damaged is not absent. A proof of absence never denies a key that was stored.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::image::{Content, Image};
use lode_heap::Object;
use lode_index::{IndexError, Range, Tree};
use lode_kv::{KvError, Store};
use lode_layout::{LEAF_HEADER, NODE_BODY, NODE_END, NodeKind, PoolOffset, TYPE_LEAF, TreeSlot};
use lode_pmem::{Medium, Memory};
use lode_pool::{Access, OpenOptions};
use lode_testing::{heap, memory, scaled, seed, tree};
use std::collections::BTreeSet;
use std::sync::Arc;

const LEN: u64 = 512 << 10;
const PAGE: usize = 4096;
const LINE: usize = 64;

/// Keys that are not there, near those that are.
const ABSENT_KEYS: [&[u8]; 5] = [b"", b"word", b"word 1000", b"a common beginning, and then", b"pppq"];

/// A closed pool in a file, opened for reading, whose view is damaged and healed in place.
struct DamagedStore {
    store: Store,
    content: Content,
    /// Where the objects of the tree are.
    objects: Vec<Object>,
    _folder: tempfile::TempDir,
}

impl DamagedStore {
    fn make() -> DamagedStore {
        let mut image = Image::make(LEN, 120, true);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("victim.pool");
        // Older leaves of the same keys lie beside the new ones.
        let again: Vec<Vec<u8>> = image.content.keys().step_by(2).cloned().collect();
        image.replace(&again, b"a value that replaces another one");
        image.replace(&again[..again.len() / 2], b"12345678");
        std::fs::write(&path, &image.bytes).unwrap();
        let store = Store::open(&path, &OpenOptions::new(Access::ReadOnly)).unwrap();
        let (_, objects) = image.open().unwrap();
        DamagedStore { store, content: image.content, objects, _folder: folder }
    }

    fn memory(&self) -> &Memory {
        self.store.heap().memory()
    }

    fn read(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory().reading(|memory| memory.read(PoolOffset::new(at as u64), &mut bytes)).unwrap();
        bytes
    }

    fn store(&self, at: usize, bytes: &[u8]) {
        self.store.heap().medium().store(PoolOffset::new(at as u64), bytes);
    }

    /// Damages the bytes at `at` in each of the ways, and asks each time.
    fn damage(
        &mut self,
        at: usize,
        ways: impl IntoIterator<Item = Vec<u8>>,
        check_lookups: fn(&mut DamagedStore, &str),
    ) {
        for (number, bytes) in ways.into_iter().enumerate() {
            let before = self.read(at, bytes.len());
            self.store(at, &bytes);
            check_lookups(self, &format!("{} bytes at {at:#x}, way {number}", bytes.len()));
            self.store(at, &before);
        }
    }

    /// The heads of tables, the used part of each span, and all objects: what the tree and its space consist of.
    fn used_lines(&self) -> BTreeSet<usize> {
        let extent = self.store.pool().header().geometry.extents()[0];
        let table = extent.start.get() as usize;
        let mut lines: BTreeSet<usize> = (table..table + 256).step_by(LINE).collect();
        for object in &self.objects {
            let chunk = extent.start.get()
                + (object.at.get() - extent.start.get()) / lode_layout::CHUNK * lode_layout::CHUNK;
            lines.extend((chunk as usize..chunk as usize + 4 * LINE).step_by(LINE));
            let first = object.at.get() as usize / LINE * LINE;
            lines.extend((first..(object.at.get() + object.size) as usize).step_by(LINE));
        }
        lines
    }

    /// Whatever a lookup returns is what was stored.
    fn check_lookups(&mut self, damage: &str) {
        let tree = match self.store.tree() {
            Ok(tree) => tree,
            Err(_) => return,
        };
        for (key, value) in &self.content {
            if let Ok(Some(found)) = tree.get(key) {
                assert_eq!(&found, value, "{key:?} after {damage}");
            }
            let in_tx = self.store.heap().run(|tx| tree.get_in(tx, key));
            assert!(in_tx.is_err() || in_tx == Ok(None) || in_tx == Ok(Some(value.clone())), "{damage}");
        }
        for absent in ABSENT_KEYS.into_iter().filter(|key| !self.content.contains_key(*key)) {
            assert!(!matches!(tree.get(absent), Ok(Some(_))), "{absent:?} after {damage}");
        }
    }

    /// All of it and right, or an error, of a scan that is compared with the count, one way or the other.
    fn check_scans(&mut self, damage: &str) {
        let Ok(tree) = self.store.tree() else { return };
        let reader = tree.reader();
        for is_up in [true, false] {
            let (mut seen, mut errors) = (Content::new(), 0);
            let mut range = reader.iter();
            while let Some(entry) = if is_up { range.next() } else { range.next_back() } {
                match entry {
                    Ok(entry) => assert_eq!(seen.insert(entry.key, entry.value.to_vec()), None, "{damage}"),
                    Err(_) => errors += 1,
                }
            }
            assert!(seen.iter().all(|(key, value)| self.content.get(key) == Some(value)), "{damage}");
            let is_whole = errors == 0 && tree.count() == Ok(seen.len() as u64);
            assert!(!is_whole || seen == self.content, "{} keys after {damage}", seen.len());
        }
    }

    /// A key is there with its value, or there is damage; absent is only what is.
    fn check_proofs(&mut self, damage: &str) {
        let content = std::mem::take(&mut self.content);
        for (key, value) in &content {
            match self.store.get_proven(key) {
                Ok(found) => assert_eq!(found.as_ref(), Some(value), "{key:?} after {damage}"),
                Err(error) => assert!(error.is_damage(), "{error}"),
            }
        }
        for absent in ABSENT_KEYS.into_iter().filter(|key| !content.contains_key(*key)) {
            let found = self.store.get_proven(absent);
            assert!(matches!(found, Ok(None) | Err(_)), "{absent:?} after {damage}");
        }
        match self.store.count_proven() {
            Ok(count) => assert_eq!(count, content.len() as u64, "{damage}"),
            Err(error) => assert!(error.is_damage(), "{error}"),
        }
        self.content = content;
    }
}

/// Each bit of the places flipped, or of many a sample.
fn for_each_flip(damaged: &mut DamagedStore, most: usize, check_lookups: fn(&mut DamagedStore, &str)) {
    let places = damaged.used_lines();
    let bits: Vec<usize> = places.iter().flat_map(|line| line * 8..(line + LINE) * 8).collect();
    let mut rng = fastrand::Rng::with_seed(seed(7));
    let most = scaled(most as u64) as usize;
    for index in 0..most.min(bits.len()) {
        let bit = if most < bits.len() { bits[rng.usize(..bits.len())] } else { bits[index] };
        let byte = damaged.read(bit / 8, 1)[0];
        damaged.damage(bit / 8, [vec![byte ^ 1 << (bit % 8)]], check_lookups);
    }
}

/// Lines and pages of zeros, of ones and of noise, and each line with a sound one over it.
fn for_each_lost_range(damaged: &mut DamagedStore, step: usize, check_lookups: fn(&mut DamagedStore, &str)) {
    let lines: Vec<usize> = damaged.used_lines().into_iter().collect();
    let mut rng = fastrand::Rng::with_seed(seed(7));
    let noise: Vec<u8> = (0..PAGE).map(|_| rng.u8(..)).collect();
    for at in lines.iter().copied().step_by(step) {
        let other = damaged.read(lines[rng.usize(..lines.len())], LINE);
        damaged.damage(at, [vec![0; LINE], vec![255; LINE], noise[..LINE].to_vec(), other], check_lookups);
    }
    let pages: BTreeSet<usize> = lines.iter().map(|line| line / PAGE * PAGE).collect();
    for at in pages {
        damaged.damage(at, [vec![0; PAGE], vec![255; PAGE], noise.clone()], check_lookups);
    }
}

#[test]
fn unchecked_read_of_lost_page_fails() {
    let (file, medium) = memory::file(4 << 20);
    let heap = heap::create(Arc::new(medium));
    let tree = tree::create(&heap);
    let leaves = || -> BTreeSet<u64> {
        let objects = heap.objects().map(Result::unwrap);
        objects.filter(|object| object.type_number == TYPE_LEAF).map(|object| object.at.get()).collect()
    };
    // The key fills its page to the end.
    let len = 3072 - LEAF_HEADER;
    let at_the_edge = (0..100u64).find_map(|number| {
        let mut key = number.to_be_bytes().to_vec();
        key.resize(len as usize, 0);
        let before = leaves();
        tree.insert(&key, b"a value!").unwrap();
        let value = leaves().difference(&before).next().unwrap() + LEAF_HEADER + len;
        value.is_multiple_of(PAGE as u64).then_some((key, value))
    });
    let (key, value) = at_the_edge.expect("some key ends with its page");
    let reader = tree.reader();
    assert_eq!(reader.get_unchecked(&key).unwrap().unwrap().to_vec().unwrap(), b"a value!");
    file.set_len(value).unwrap();
    assert!(matches!(reader.get_unchecked(&key), Err(IndexError::Fault(_))));
    assert!(matches!(reader.get(&key), Err(IndexError::Fault(_))));
}

#[test]
fn reads_after_any_flipped_bit() {
    let mut damaged = DamagedStore::make();
    for_each_flip(&mut damaged, 4_000, DamagedStore::check_lookups);
    for_each_flip(&mut damaged, 1_500, DamagedStore::check_scans);
}

#[test]
fn reads_after_lost_lines_and_pages() {
    let mut damaged = DamagedStore::make();
    for_each_lost_range(&mut damaged, 1, DamagedStore::check_lookups);
    for_each_lost_range(&mut damaged, 1, DamagedStore::check_scans);
}

#[test]
fn proof_of_absence_denies_no_key() {
    let mut damaged = DamagedStore::make();
    damaged.check_proofs("nothing");
    assert_eq!(damaged.store.get_proven(ABSENT_KEYS[4]).unwrap(), None, "absence is proved in a sound pool");
    for_each_flip(&mut damaged, 2_000, DamagedStore::check_proofs);
    for_each_lost_range(&mut damaged, 3, DamagedStore::check_proofs);
}

/// Every bit of every leaf: its key has its value, or there is an error, and it is not absent.
#[test]
fn corrupt_leaf_is_not_absent() {
    let damaged = DamagedStore::make();
    let tree = damaged.store.tree().unwrap();
    let leaves = damaged.objects.iter().filter(|object| object.type_number == TYPE_LEAF);
    let mut count = 0;
    for (key, value) in &damaged.content {
        let leaf = leaves.clone().find(|leaf| {
            damaged.read(leaf.at.get() as usize + 4, 4) == (key.len() as u32).to_le_bytes()
                && damaged.read(leaf.at.get() as usize + 16, key.len()) == *key
        });
        let at = leaf.unwrap().at.get() as usize;
        let len = 16 + key.len().next_multiple_of(8) + value.len().next_multiple_of(8);
        for bit in 0..len * 8 {
            let byte = damaged.read(at + bit / 8, 1)[0];
            damaged.store(at + bit / 8, &[byte ^ 1 << (bit % 8)]);
            assert!(tree.get(key).is_err(), "bit {bit} of the leaf of {key:?}");
            count += 1;
            if bit % 16 == 0 {
                let decided = tree.update(key, |old| panic!("{old:?} is passed off as the value of {key:?}"));
                assert!(decided.is_err());
                assert!(damaged.store.heap().run(|tx| tree.get_in(tx, key)).is_err());
            }
            damaged.store(at + bit / 8, &[byte]);
        }
        assert_eq!(tree.get(key), Ok(Some(value.clone())));
    }
    assert!(count > 20_000, "{count}");
}

/// What was lost is what is told: of the slot of one key, of the count, and of nothing.
#[test]
fn emptied_slot_is_a_count_mismatch() {
    let mut damaged = DamagedStore::make();
    assert_eq!(damaged.store.count_proven().unwrap(), damaged.content.len() as u64);
    let root = damaged.store.tree().unwrap().root();
    damaged.store.heap().medium().store8(root.plus(NODE_END), 0);
    let key = damaged.content.keys().next().unwrap().clone();
    assert_eq!(damaged.store.get(&key).unwrap(), None, "a lookup does not prove absence");
    assert!(matches!(damaged.store.get_proven(&key), Err(KvError::Unproven(_))));
    let counted = damaged.content.len() as u64;
    match damaged.store.count_proven() {
        Err(KvError::Count { counted: told, found: 0, .. }) => assert_eq!(told, counted),
        other => panic!("{other:?}"),
    }
}

#[test]
fn unchecked_lookup_skips_checksum() {
    let damaged = DamagedStore::make();
    let tree = damaged.store.tree().unwrap();
    let (key, value) = damaged.content.iter().find(|(_, value)| value.len() == 8).unwrap();
    let reader = tree.reader();
    assert_eq!(reader.get_unchecked(key).unwrap().unwrap().to_vec().unwrap(), *value);
    let leaf = damaged.objects.iter().find(|leaf| {
        leaf.type_number == TYPE_LEAF && damaged.read(leaf.at.get() as usize + 16, key.len()) == *key
    });
    let at = leaf.unwrap().at.get() as usize + 16 + key.len().next_multiple_of(8);
    damaged.store(at, b"wrong");
    assert_eq!(reader.get_unchecked(key).unwrap().unwrap().as_small().unwrap()[..5], *b"wrong");
    assert!(reader.get(key).is_err());
}

/// A tree of the keys a0 to a9, below a node of their own, and b. Returns that node.
fn two_levels<M: Medium>(tree: &Tree<'_, M>) -> PoolOffset {
    for digit in b'0'..=b'9' {
        tree.insert(&[b'a', digit], b"a value of some length").unwrap();
    }
    tree.insert(b"b", b"another").unwrap();
    let memory = tree.heap().memory();
    let top =
        TreeSlot::from_word(memory.reading(|memory| memory.load8(tree.root().plus(NODE_END))).unwrap()).at();
    let slots = (0..4).map(|index| {
        TreeSlot::from_word(memory.reading(|memory| memory.load8(top.plus(NODE_BODY + index * 8))).unwrap())
    });
    slots.into_iter().find(|slot| slot.byte() == b'a').unwrap().at()
}

#[test]
fn node_without_children_is_an_error() {
    let heap = heap::create(memory::volatile(1 << 20));
    let tree = tree::create(&heap);
    let node = two_levels(&tree);
    let damage = IndexError::Corrupt { what: "the children of the node of the tree", at: node };
    let body = NodeKind::N16.size() - NODE_BODY;
    let whole: Vec<u64> = (0..body / 8)
        .map(|word| heap.memory().reading(|memory| memory.load8(node.plus(NODE_BODY + word * 8))).unwrap())
        .collect();
    (0..body / 8).for_each(|word| heap.medium().store8(node.plus(NODE_BODY + word * 8), 0));
    let keys = |range: Range<'_, _>| range.map(|entry| entry.map(|entry| entry.key)).collect::<Vec<_>>();
    let reader = tree.reader();
    let b = || Ok(b"b".to_vec());
    assert_eq!(keys(reader.iter()), [Err(damage.clone()), b()], "the scan goes on after it");
    assert_eq!(reader.iter().rev().map(|entry| entry.is_ok()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(keys(reader.prefix(b"a")), [Err(damage.clone())]);
    assert_eq!(keys(reader.range(&b"a5"[..]..&b"a6"[..])), [Err(damage.clone())]);
    assert_eq!(keys(reader.range(&b"b"[..]..)), [b()]);
    // In a node with key bytes a single lost slot is found as well: its key byte is still there.
    whole
        .iter()
        .zip(0..)
        .for_each(|(word, index)| heap.medium().store8(node.plus(NODE_BODY + index * 8), *word));
    let slot = node.plus(NodeKind::N16.slots_off() + 8 * 4);
    heap.medium().store8(slot, 0);
    let found = keys(reader.prefix(b"a"));
    assert_eq!((found.len(), found[0].clone()), (10, Err(damage.clone())), "nine keys that are left");
}

/// A slot as it was before its key got another value: the leaf there has the key and a checksum that is right.
#[test]
fn freed_leaf_is_an_error() {
    let heap = heap::create(memory::volatile(1 << 20));
    let tree = tree::create(&heap);
    let node = two_levels(&tree);
    let slot = node.plus(NodeKind::N16.slots_off());
    let old = heap.memory().reading(|memory| memory.load8(slot)).unwrap();
    let key = [b'a', TreeSlot::from_word(old).byte()];
    tree.insert(&key, b"the other value of that length").unwrap();
    assert_ne!(heap.memory().reading(|memory| memory.load8(slot)).unwrap(), old);
    heap.medium().store8(slot, old);
    let damage = IndexError::Corrupt { what: "the slot of the tree that leads to the object", at: slot };
    assert_eq!(tree.get(&key), Err(damage.clone()));
    assert_eq!(heap.run(|tx| tree.get_in(tx, &key)), Err(damage.clone()));
    assert_eq!(tree.reader().iter().filter(|entry| *entry == Err(damage.clone())).count(), 1);
    assert_eq!(tree.reader().iter().filter(Result::is_ok).count(), 10);
}
