//! Whole stores in memory: several named trees, one of them empty, and a dropped one that still has keys.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::image::LOG_EPOCH;
use lode_fsck::{Repair, check_pool, repair_pool};
use lode_heap::check::Report;
use lode_index::{IndexError, StoreLayout, Tree, Trees};
use lode_layout::{Header, NODE_END, TreeTableKey};
use lode_pmem::{Mapping, Medium};
use lode_testing::{kv, memory};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys and values of a tree.
pub(crate) type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// The trees with keys.
const NAMES: [&str; 4] = ["accounts", "history", "jobs", "results"];

/// The bytes of a store, and what it holds.
#[derive(Clone)]
pub(crate) struct StoreImage {
    pub(crate) bytes: Vec<u8>,
    pub(crate) trees: BTreeMap<String, Content>,
}

/// Trees have the same keys: numbers, and texts of which some are prefixes of others.
fn key(number: u64) -> Vec<u8> {
    match number % 3 {
        0 => number.to_be_bytes().to_vec(),
        1 => format!("word {}", number / 3).into_bytes(),
        _ => vec![b'p'; number as usize % 60],
    }
}

impl StoreImage {
    /// A store of `len` bytes with some `keys` keys in each tree, closed or as a power cut finds it.
    pub(crate) fn make(len: u64, keys: u64, closed: bool) -> StoreImage {
        let heap = kv::create_empty(len, StoreLayout::NAME);
        let table = heap.run(Trees::create).unwrap();
        let trees = Trees::open(&heap, table).unwrap();
        let mut content = BTreeMap::new();
        for name in NAMES.into_iter().chain(["empty", "dropped"]) {
            let named = heap.run(|tx| trees.create_in(tx, name, "bytes", "bytes")).unwrap();
            let tree = Tree::open(&heap, named.root).unwrap();
            let entries = content.entry(name.to_owned()).or_insert_with(Content::new);
            for number in (0..keys).take_while(|_| name != "empty") {
                let mut value = name.as_bytes().to_vec();
                value.resize(8 + (number * 7 % 50) as usize, number as u8);
                tree.insert(&key(number), &value).unwrap();
                entries.insert(key(number), value);
                if number % 7 == 0 {
                    tree.delete(&key(number / 2)).unwrap();
                    entries.remove(&key(number / 2));
                }
            }
            if name == "jobs" {
                heap.log().checkpoint().unwrap();
            }
        }
        heap.run(|tx| trees.drop_in(tx, "dropped")).unwrap();
        content.remove("dropped");
        if closed {
            heap.log().close().unwrap();
        }
        StoreImage { bytes: memory::bytes(heap.medium()), trees: content }
    }

    /// Returns the offset of the root object of a tree.
    pub(crate) fn root(&self, name: &str) -> u64 {
        let heap = kv::open(&self.medium(), [5, 6]).unwrap();
        let trees = Trees::open(&heap, heap.root().unwrap()).unwrap();
        trees.get(name).unwrap().unwrap().root.get()
    }

    /// Overwrites bytes.
    pub(crate) fn damage(&mut self, at: u64, len: usize) {
        self.bytes[at as usize..][..len].fill(0xEE);
    }

    /// Damages the slot of a root object, so that nothing leads to the nodes and leaves.
    pub(crate) fn damage_top(&mut self, name: &str) {
        self.damage(self.root(name) + NODE_END, 8);
    }

    /// Damages the leaf of a name in the table of trees.
    pub(crate) fn damage_name(&mut self, name: &str) {
        let key = TreeTableKey::Named(name).encode();
        // The log, which comes first, has the name, too.
        let at = self.bytes.windows(key.len()).rposition(|bytes| bytes == key).unwrap();
        self.damage(at as u64, key.len());
    }

    pub(crate) fn header(&self) -> Header {
        Header::decode(&self.bytes[..4096]).unwrap()
    }

    /// Memory that holds the image.
    pub(crate) fn medium(&self) -> Arc<Mapping> {
        Arc::new(memory::from_bytes(&self.bytes))
    }

    pub(crate) fn check(&self) -> Report {
        check_pool(self.medium(), &[&StoreLayout])
    }

    /// Fails if anything is missing or wrong in the repaired store on `medium` that `repair` does not report.
    pub(crate) fn assert_accounted(&self, medium: &Arc<Mapping>, repair: &Repair, what: &str) {
        assert!(repair.after.is_clean(), "{what}: {}", repair.after);
        let found = contents(medium).unwrap_or_else(|error| panic!("{what}: {error}"));
        let spare = || found.iter().filter(|(name, _)| name.starts_with("lost+found")).map(|(_, tree)| tree);
        for (name, tree) in &self.trees {
            let is_name_lost = repair.lost_names.iter().any(|range| range.contains(name.as_bytes()));
            assert!(
                found.contains_key(name) || is_name_lost || repair.lost_transactions,
                "{what}: {name}: {repair:?}"
            );
            for (key, value) in tree {
                let is_in_place = found.get(name).is_some_and(|tree| tree.get(key) == Some(value));
                let is_spared = spare().any(|tree| tree.get(key) == Some(value));
                let is_of = |tree: &Option<String>| tree.as_ref().is_none_or(|tree| tree == name);
                let is_told = repair.lost_transactions
                    || repair.lost.iter().any(|range| is_of(&range.tree) && range.contains(key));
                assert!(is_in_place || is_spared || is_told, "{what}: {name}: {key:?}: {repair:?}");
                assert!(is_in_place || repair.has_losses(), "{what}: {name}: {key:?}: {repair:?}");
            }
        }
        for (name, tree) in found.iter().filter(|(name, _)| !name.starts_with("lost+found")) {
            let want = self.trees.get(name).unwrap_or_else(|| panic!("{what}: {name} was not there"));
            for (key, value) in tree {
                let is_right = repair.lost_transactions || want.get(key) == Some(value);
                assert!(is_right, "{what}: {name}: {key:?} has {value:?}: {repair:?}");
            }
        }
    }
}

/// Repairs the store on `medium`.
pub(crate) fn repair<M: Medium>(medium: &Arc<M>, what: &str) -> Repair {
    repair_pool(medium, LOG_EPOCH, &[&StoreLayout]).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// The trees of the store on `medium`.
pub(crate) fn contents(medium: &Arc<Mapping>) -> Result<BTreeMap<String, Content>, String> {
    let text = |error: IndexError| error.to_string();
    let heap = kv::open(medium, [5, 6])?;
    let trees = Trees::open(&heap, heap.root().map_err(|error| error.to_string())?).map_err(text)?;
    let names = heap.run(|tx| trees.names_in(tx)).map_err(text)?;
    let mut contents = BTreeMap::new();
    for name in names {
        let named = trees.get(&name).map_err(text)?.ok_or("a name without a tree")?;
        let tree = Tree::open(&heap, named.root).map_err(text)?;
        let reader = tree.reader();
        let entries = reader.iter().map(|entry| entry.map(|entry| (entry.key, entry.value.into_vec())));
        contents.insert(name, entries.collect::<Result<Content, _>>().map_err(text)?);
    }
    Ok(contents)
}
