//! Single flipped bits in every object of a tree: whatever changes an answer is found by `check`, and nothing
//! that is asked of a damaged tree, or done to it, panics or goes on for ever.

use lode_index::{Entry, Finding, IndexError, Tree};
use lode_layout::PoolOffset;
use lode_pmem::{Mapping, Medium};
use lode_testing::{heap, memory, tree};
use std::sync::Arc;

const LEN: u64 = 1 << 20;

/// Keys that make nodes of all kinds, long prefixes, nodes with one child, and keys that end at nodes.
fn keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> =
        vec![vec![], b"a".to_vec(), b"ab".to_vec(), b"abcdefgh1".to_vec(), b"abcdefgh2".to_vec()];
    keys.extend((0..10u8).map(|byte| vec![b'c', byte * 7]));
    keys.extend((0..30u8).map(|byte| vec![b'd', b'd', byte * 8]));
    keys.extend((0..60u8).map(|byte| [b"skipped"[..].to_vec(), vec![byte * 4]].concat()));
    keys.extend((0..3u8).map(|byte| [vec![b'x'; 1200], vec![byte]].concat()));
    keys
}

/// What others ask for: keys that are not there, near those that are.
fn absent_keys() -> Vec<Vec<u8>> {
    let near = [&b"b"[..], b"abc", b"abcdefgh3", b"c", b"d", b"skipPed\x04", b"skipped\x05", b"d\x01"];
    let mut keys: Vec<Vec<u8>> = near.into_iter().map(<[u8]>::to_vec).collect();
    keys.push(vec![b'x'; 1200]);
    keys.push([vec![b'x'; 600], vec![b'y'; 601]].concat());
    keys
}

fn value(key: &[u8]) -> Vec<u8> {
    key.iter().rev().copied().cycle().take(3 + key.len() % 11).chain([7]).collect()
}

/// All answers of a tree; `None` in place of those that are errors.
fn results<M: Medium>(tree: &Tree<'_, M>, keys: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
    let reader = tree.reader();
    let mut results = Vec::new();
    for key in keys {
        match tree.get(key) {
            Ok(value) => results.push(Some(value.map_or(vec![0], |value| [vec![1], value].concat()))),
            Err(_) => results.push(None),
        }
    }
    for is_up in [true, false] {
        let mut range = reader.range(b"a".to_vec()..b"z".to_vec());
        let mut all = Some(Vec::new());
        while let Some(entry) = if is_up { range.next() } else { range.next_back() } {
            match entry {
                Ok(Entry { key, value }) => all.as_mut().map(|all| all.extend([&key[..], &value].concat())),
                Err(_) => all.take().map(|_| ()),
            };
        }
        results.push(all);
    }
    results.push(tree.count().ok().map(|count| count.to_le_bytes().to_vec()));
    results
}

fn count_damage<M: Medium>(tree: &Tree<'_, M>) -> usize {
    let mut count_damage = 0;
    tree.check(|finding| count_damage += usize::from(matches!(finding, Finding::Damage(_))));
    count_damage
}

struct Pool {
    medium: Arc<Mapping>,
    root: PoolOffset,
    /// Every word of every object of the tree.
    words: Vec<PoolOffset>,
    keys: Vec<Vec<u8>>,
}

fn pool() -> Pool {
    let medium = memory::volatile(LEN);
    let heap = heap::create(Arc::clone(&medium));
    let tree = tree::create(&heap);
    for key in keys() {
        tree.insert(&key, &value(&key)).expect("a sound tree");
    }
    let mut words = Vec::new();
    tree.check(|finding| match finding {
        Finding::Object(object) => words.extend((0..object.size / 8).map(|word| object.at.plus(word * 8))),
        other => panic!("{other:?}"),
    });
    let root = tree.root();
    heap.close().expect("a sound tree");
    Pool { medium, root, words, keys: keys().into_iter().chain(absent_keys()).collect() }
}

#[test]
fn flips_that_change_results_are_found() {
    let pool = pool();
    let heap = heap::open(Arc::clone(&pool.medium), 3);
    let tree = Tree::open(&heap, pool.root).expect("a sound tree");
    let right = results(&tree, &pool.keys);
    assert!(right.iter().all(Option::is_some) && count_damage(&tree) == 0);
    let memory = pool.medium.memory();
    let (mut harmless, mut found) = (0, 0);
    for at in &pool.words {
        let word = memory.reading(|memory| memory.load8(*at)).unwrap();
        for bit in 0..64 {
            memory.store8(*at, word ^ 1 << bit);
            let count_damage = count_damage(&tree);
            found += usize::from(count_damage > 0);
            if count_damage == 0 {
                harmless += 1;
                assert_eq!(results(&tree, &pool.keys), right, "bit {bit} of {at}");
            }
            memory.store8(*at, word);
        }
    }
    println!("{found} flips found, {harmless} harmless");
    assert!(found > harmless, "most bits mean something");
    assert_eq!(count_damage(&tree), 0);
}

#[test]
fn flips_cause_no_panic_or_hang() {
    let pool = pool();
    let memory = pool.medium.memory();
    let mut image = vec![0; LEN as usize];
    memory.reading(|memory| memory.read(PoolOffset::NULL, &mut image)).unwrap();
    let mut rng = fastrand::Rng::with_seed(5);
    for round in 0..500 {
        memory.store(PoolOffset::NULL, &image);
        let heap = heap::open(Arc::clone(&pool.medium), 3);
        let tree = Tree::open(&heap, pool.root).expect("a sound tree");
        for _ in 0..=round % 3 {
            let at = pool.words[rng.usize(..pool.words.len())];
            memory.store8(
                at,
                if rng.bool() {
                    memory.reading(|memory| memory.load8(at)).unwrap() ^ 1 << rng.u32(..64)
                } else {
                    rng.u64(..)
                },
            );
        }
        results(&tree, &pool.keys);
        for _ in 0..20 {
            let key = &pool.keys[rng.usize(..pool.keys.len())];
            let (what, byte, has_locks) = (rng.u8(..3), rng.u8(..), rng.bool());
            let done: Result<bool, IndexError> = heap.run(|tx| {
                if has_locks {
                    // Of something else that the transaction changes.
                    tx.lock(PoolOffset::NULL)?;
                }
                match what {
                    0 => tree.delete_in(tx, key),
                    1 => tree.insert_in(tx, key, &value(key)),
                    _ => tree.insert_in(tx, &[key.as_slice(), &[byte]].concat(), b"new"),
                }
            });
            // Right or an error; it is enough that it comes back.
            let _ = done;
        }
        count_damage(&tree);
    }
}
