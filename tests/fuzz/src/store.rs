//! A store with a hostile table of trees: checking, repairing and using it end without a panic, for any entries and any
//! words.

use lode_fsck::{check_pool, repair_pool};
use lode_heap::Heap;
use lode_index::{IndexError, StoreLayout, Tree, Trees, TreesSnapshot};
use lode_layout::{PoolOffset, TreeEntry, TreeTableKey};
use lode_pmem::{Mapping, Medium};
use lode_testing::{kv, memory};
use std::sync::Arc;

/// Bytes of the pool that is fuzzed.
const POOL_LEN: u64 = 256 << 10;
/// First byte of an operation that stores a word: its place (2 bytes, in words) and the word follow.
const WORD: u8 = 0;
/// First byte of an operation that adds an entry to the table: the lengths of key and value (a byte each), the key and
/// the value follow.
const ENTRY: u8 = 1;

/// Reads the bytes as operations on a sound store, up to the first that is incomplete.
pub fn run(data: &[u8]) {
    check_formats(data);
    let (medium, table) = sound_store();
    let mut words = Vec::new();
    if let Ok(heap) = kv::open(&medium, [5, 5]) {
        let mut rest = data;
        while let Some((entry, words_of, left)) = operation(rest) {
            rest = left;
            words.extend(words_of);
            if let Some((key, value)) = entry
                && let Ok(tree) = Tree::open(&heap, table)
            {
                let _ = tree.insert(key, value);
            }
        }
    }
    for (at, word) in words {
        medium.store8(PoolOffset::new(u64::from(at) * 8 % POOL_LEN), word);
    }
    let bytes = memory::bytes(&medium);
    let report = check_pool(Arc::new(memory::from_bytes(&bytes)), &[&StoreLayout]);
    assert!(!report.to_string().is_empty());
    let _ = use_store(&Arc::new(memory::from_bytes(&bytes)));
    if repair_pool(&medium, [7, 8], &[&StoreLayout]).is_ok_and(|repair| repair.after.is_clean()) {
        assert!(use_store(&medium).is_ok(), "a repaired store is sound");
    }
}

/// An operation: the entry or the word of it, and the bytes after it.
type Operation<'d> = (Option<(&'d [u8], &'d [u8])>, Option<(u16, u64)>, &'d [u8]);

fn operation(data: &[u8]) -> Option<Operation<'_>> {
    let (kind, rest) = data.split_first()?;
    if kind % 2 == WORD {
        let (at, rest) = rest.split_first_chunk::<2>()?;
        let (word, rest) = rest.split_first_chunk::<8>()?;
        return Some((None, Some((u16::from_le_bytes(*at), u64::from_le_bytes(*word))), rest));
    }
    let ([key_len, value_len], rest) = rest.split_first_chunk::<2>()?;
    let (key, rest) = rest.split_at_checked(usize::from(*key_len))?;
    let (value, rest) = rest.split_at_checked(usize::from(*value_len))?;
    Some((Some((key, value)), None, rest))
}

/// Decodes the bytes as an entry and as a key of the table. Encoding the result gives the same bytes.
fn check_formats(data: &[u8]) {
    if let Ok(entry) = TreeEntry::decode(data) {
        assert_eq!(entry.encode(), data);
    }
    if let Ok(key) = TreeTableKey::decode(data) {
        assert_eq!(key.encode(), data);
    }
}

/// Lists, reads, changes and drops trees.
fn use_store(medium: &Arc<Mapping>) -> Result<(), String> {
    let text = |error: IndexError| error.to_string();
    let heap = kv::open(medium, [9, 9])?;
    let root = heap.root().map_err(|error| error.to_string())?;
    let trees = Trees::open(&heap, root).map_err(text)?;
    let names = heap.run(|tx| trees.names_in(tx)).map_err(text)?;
    for name in &names {
        let Some(named) = trees.get(name).map_err(text)? else { continue };
        let tree = Tree::open(&heap, named.root).map_err(text)?;
        for entry in tree.reader().iter().take(10_000) {
            entry.map_err(text)?;
        }
        tree.insert(b"another key", b"its value").map_err(text)?;
    }
    if !root.is_null() {
        let copied = copy(&heap, root);
        if let Some(name) = names.first() {
            heap.run(|tx| trees.drop_in(tx, name)).map_err(text)?;
        }
        // A damaged tree may lead in circles.
        for _ in 0..1000 {
            if !trees.reclaim(16).map_err(text)? {
                break;
            }
        }
        copied?;
    }
    Ok(())
}

/// Copies all trees to another store. A copy that is made has what the store has.
fn copy(heap: &Heap<Arc<Mapping>>, root: PoolOffset) -> Result<(), String> {
    let text = |error: IndexError| error.to_string();
    let snapshot = heap.snapshot().map_err(|error| error.to_string())?;
    let source = TreesSnapshot::open(&snapshot, root).map_err(text)?;
    let target = kv::create_empty(4 * POOL_LEN, StoreLayout::NAME);
    let trees = target.run(Trees::create).and_then(|table| Trees::open(&target, table)).map_err(text)?;
    let keys = trees.copy_from(&source, |_, error| error, |_| Ok(())).map_err(text)?;
    let mut copied = 0;
    for (name, tree) in source.all_named().map_err(text)? {
        let made = trees.get(&name).map_err(text)?.expect("a copied tree");
        assert_eq!((&made.key_type, &made.value_type), (&tree.key_type, &tree.value_type));
        let made = Tree::open(&target, made.root).map_err(text)?;
        let (made, from) = (made.reader(), source.open_tree(&tree).map_err(text)?);
        let mut entries = made.iter();
        for entry in from.iter() {
            let (made, from) = (entries.next().expect("as many keys").map_err(text)?, entry.map_err(text)?);
            assert_eq!((made.key, made.value), (from.key, from.value));
            copied += 1;
        }
        assert!(entries.next().is_none(), "no more keys");
    }
    assert_eq!(copied, keys);
    Ok(())
}

/// Makes a store with two trees of some keys, and a dropped one. Returns its table.
fn sound_store() -> (Arc<Mapping>, PoolOffset) {
    let heap = kv::create_empty(POOL_LEN, StoreLayout::NAME);
    let table = heap.run(Trees::create).expect("room");
    let trees = Trees::open(&heap, table).expect("a table");
    for name in ["accounts", "jobs", "dropped"] {
        let named = heap.run(|tx| trees.create_in(tx, name, "bytes", "bytes")).expect("room");
        let tree = Tree::open(&heap, named.root).expect("a tree");
        for number in 0..12u8 {
            tree.insert(format!("{name} {number}").as_bytes(), &[number; 9]).expect("room");
        }
    }
    heap.run(|tx| trees.drop_in(tx, "dropped")).expect("a tree");
    let medium = Arc::clone(heap.medium());
    heap.close().expect("memory");
    (medium, table)
}

/// Returns entries and words of each kind: none, sound ones, and those that lead to the wrong place.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (medium, table) = sound_store();
    let heap = kv::open(&medium, [5, 5]).expect("a heap");
    let trees = Trees::open(&heap, table).expect("a table");
    let jobs = trees.get("jobs").expect("a table").expect("a tree").root;
    let entry =
        |key: &[u8], value: &[u8]| [&[ENTRY, key.len() as u8, value.len() as u8], key, value].concat();
    let value = |root: PoolOffset| TreeEntry { root, key_type: "u64", value_type: "str" }.encode();
    let named = |name: &str, root| entry(&TreeTableKey::Named(name).encode(), &value(root));
    let dropped = |root| entry(&TreeTableKey::Dropped(root).encode(), &[]);
    let word = |at: PoolOffset, word: u64| {
        [&[WORD][..], &((at.get() / 8) as u16).to_le_bytes(), &word.to_le_bytes()].concat()
    };
    vec![
        ("sound", Vec::new()),
        ("key", TreeTableKey::Named("jobs").encode()),
        ("value", value(jobs)),
        ("two-names", named("twice", jobs)),
        ("own-table", named("table", table)),
        ("inside", named("inside", jobs.plus(64))),
        ("outside", named("outside", PoolOffset::new(1 << 40))),
        ("named-and-dropped", dropped(jobs)),
        ("bad-kind", entry(b"\x07x", &value(jobs))),
        ("lost-root-object", word(jobs, 0)),
        ("lost-nodes", [word(jobs.plus(8), 0), word(table.plus(8), u64::MAX)].concat()),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn hostile_stores_never_panic() {
        let (_, table) = sound_store();
        let seeds: Vec<Vec<u8>> = seeds().into_iter().map(|(_, seed)| seed).collect();
        let mut random = 7u64;
        let mut next = move |end: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % end
        };
        for round in 0..600 {
            // Seeds after one another, and some words near the root objects, with a few bytes changed.
            let mut data: Vec<u8> = Vec::new();
            for _ in 0..=next(4) {
                data.extend(&seeds[next(seeds.len())]);
                let at = (table.get() / 8) as u16 + next(4096) as u16;
                data.push(WORD);
                data.extend(at.to_le_bytes());
                data.extend((next(usize::MAX >> 1) as u64 >> next(62)).to_le_bytes());
            }
            for _ in 0..next(3) {
                let at = next(data.len());
                data[at] ^= 1 << next(8);
            }
            println!("round {round}");
            run(&data);
        }
    }
}
