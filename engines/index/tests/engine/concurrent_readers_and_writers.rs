//! Several threads write and read one tree without a lock around it: nothing is lost, doubled, or seen half.

use lode_index::{IndexError, Tree};
use lode_pmem::Medium;
use lode_testing::{heap, memory, tree};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const WRITERS: u64 = 4;

/// Operations of each writer: less where each step is checked by an interpreter or a sanitizer.
const STEPS: u64 = if cfg!(miri) { 50 } else { 30_000 };

/// A key of writer `writer`: all writers' keys lie beside each other in the same nodes.
fn key(rng: &mut fastrand::Rng, writer: u64) -> Vec<u8> {
    let mut key = match rng.u8(..4) {
        0 => vec![rng.u8(..)],
        1 => vec![b'a', rng.u8(..8), rng.u8(..8)],
        2 => [&[b'b'; 40][..], &[rng.u8(..4)], &[b'b'; 30][..rng.usize(..30)]].concat(),
        _ => rng.u64(..500).to_be_bytes().to_vec(),
    };
    key.push(writer as u8);
    key
}

/// The value says whose it is; it has one of three lengths, one of which changes in place.
fn value(writer: u64, step: u64, len: u64) -> Vec<u8> {
    let word = (step * WRITERS + writer).to_le_bytes();
    word.repeat(len as usize)
}

fn is_whole(value: &[u8]) -> bool {
    value.len().is_multiple_of(8) && value.chunks(8).all(|word| word == &value[..8])
}

fn write<M: Medium>(tree: &Tree<'_, M>, writer: u64, model: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut rng = fastrand::Rng::with_seed(writer);
    for step in 0..STEPS {
        let key = key(&mut rng, writer);
        if rng.u8(..10) < 6 {
            let value = value(writer, step, 1 + 2 * rng.u64(..3));
            let was_there = model.insert(key.clone(), value.clone()).is_some();
            assert_eq!(tree.insert(&key, &value), Ok(was_there));
        } else {
            assert_eq!(tree.delete(&key), Ok(model.remove(&key).is_some()));
        }
        assert_eq!(tree.get(&key).expect("a sound tree"), model.get(&key).cloned());
    }
}

fn read<M: Medium>(tree: &Tree<'_, M>, is_over: &AtomicBool, reads: &AtomicU64) {
    let mut rng = fastrand::Rng::with_seed(99);
    while !is_over.load(Ordering::Relaxed) {
        let reader = tree.reader();
        for _ in 0..100 {
            let writer = rng.u64(..WRITERS);
            let key = key(&mut rng, writer);
            if let Some(value) = reader.get(&key).expect("a sound tree") {
                assert!(is_whole(&value), "{value:?}");
                assert_eq!(u64::from_le_bytes(value[..8].try_into().expect("a word")) % WRITERS, writer);
            }
        }
        let way = rng.bool();
        let mut range = reader.range(vec![rng.u8(..)]..);
        let mut last: Option<Vec<u8>> = None;
        while let Some(entry) = if way { range.next() } else { range.next_back() } {
            let entry = entry.expect("a sound tree");
            assert!(is_whole(&entry.value), "{entry:?}");
            assert!(last.is_none_or(|last| (last < entry.key) == way));
            last = Some(entry.key);
        }
        reads.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn writers_of_adjacent_keys() {
    let heap = heap::create(memory::volatile(64 << 20));
    let tree = tree::create(&heap);
    // Always there, so no scan may miss it.
    tree.insert(&[255, 255, 255], &[7; 8]).expect("a sound tree");
    let (is_over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let models: Vec<BTreeMap<Vec<u8>, Vec<u8>>> = thread::scope(|scope| {
        let reader = scope.spawn(|| read(&tree, &is_over, &reads));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let mut model = BTreeMap::new();
                    write(&tree, writer, &mut model);
                    model
                })
            })
            .collect();
        let models: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        reader.join().expect("the reader");
        models.into_iter().map(|model| model.expect("a writer")).collect()
    });
    assert!(reads.load(Ordering::Relaxed) > 0);
    let keys = models.iter().map(BTreeMap::len).sum::<usize>() as u64 + 1;
    tree::check(&heap, &tree, keys);
    for model in models {
        for (key, value) in model {
            assert_eq!(tree.get(&key), Ok(Some(value)));
        }
    }
}

/// Values that change in place by two stores, all the time: each look sees one of them, and no damage.
#[test]
fn verified_reads_of_changing_values() {
    let heap = heap::create(memory::volatile(16 << 20));
    let tree = tree::create(&heap);
    let keys: Vec<Vec<u8>> = (0..4u8).map(|byte| vec![b'k', byte]).collect();
    for key in &keys {
        tree.insert(key, &value(0, 0, 1)).expect("a sound tree");
    }
    let (is_over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let read = || {
            let reader = tree.reader();
            let mut last = [0; 4];
            while !is_over.load(Ordering::Relaxed) {
                for (key, last) in keys.iter().zip(&mut last) {
                    let found = reader.get(key).expect("no damage").expect("a key");
                    let step = u64::from_le_bytes(found.as_bytes().try_into().expect("a word"));
                    assert!(step >= *last, "{step} after {last}");
                    *last = step;
                }
                for entry in reader.iter() {
                    assert_eq!(entry.expect("no damage").value.len(), 8);
                }
                let found = heap.run(|tx| tree.get_in(tx, &keys[0])).expect("no damage");
                assert!(found.is_some());
                assert_eq!(tree.delete(b"k"), Ok(false));
                reads.fetch_add(1, Ordering::Relaxed);
            }
        };
        let reader = scope.spawn(read);
        for step in 1..STEPS * 2 {
            tree.insert(&keys[step as usize % 4], &value(0, step, 1)).expect("a sound tree");
        }
        while reads.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        reader.join().expect("the reader");
    });
}

/// Transactions that move an amount between keys: every transaction and every moment has the same sum.
#[test]
fn transactions_of_several_keys_are_atomic() {
    const ACCOUNTS: u64 = 40;
    const START: u64 = 1000;
    let heap = heap::create(memory::volatile(16 << 20));
    let tree = tree::create(&heap);
    for account in 0..ACCOUNTS {
        tree.insert(&account.to_be_bytes(), &START.to_le_bytes()).expect("a sound tree");
    }
    let amount =
        |old: Option<&[u8]>| old.map_or(0, |old| u64::from_le_bytes(old.try_into().expect("a word")));
    thread::scope(|scope| {
        for thread in 0..3 {
            let heap = &heap;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                for _ in 0..STEPS / 3 {
                    let (from, to) = (rng.u64(..ACCOUNTS).to_be_bytes(), rng.u64(..ACCOUNTS).to_be_bytes());
                    let moved: Result<(), IndexError> = heap.run(|tx| {
                        let mut taken = 0;
                        tree.update_in(tx, &from, |old| {
                            taken = amount(old).min(3);
                            Some((amount(old) - taken).to_le_bytes().to_vec())
                        })?;
                        tree.update_in(tx, &to, |old| Some((amount(old) + taken).to_le_bytes().to_vec()))
                    });
                    moved.expect("a transfer");
                }
            });
        }
    });
    let reader = tree.reader();
    let sum: u64 = reader.iter().map(|entry| amount(Some(&entry.expect("an account").value))).sum();
    assert_eq!(sum, ACCOUNTS * START);
    drop(reader);
    tree::check(&heap, &tree, ACCOUNTS);
}

/// Threads insert the same keys at once: each key is there once, and one insertion of each was the first.
#[test]
fn concurrent_inserts_of_same_keys() {
    let heap = heap::create(memory::volatile(16 << 20));
    let tree = tree::create(&heap);
    let firsts = AtomicU64::new(0);
    let keys = STEPS / 10;
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let firsts = &firsts;
            scope.spawn(move || {
                for number in 0..keys {
                    let key = (number * 0x9E37_79B9).to_be_bytes();
                    let was_there = tree.insert(&key, &[thread as u8; 20]).expect("an insertion");
                    firsts.fetch_add(u64::from(!was_there), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(firsts.load(Ordering::Relaxed), keys);
    tree::check(&heap, &tree, keys);
}
