//! Transactions that read and write keys of a tree are serializable, whatever they read.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::{Heap, Tx};
use lode_index::{IndexError, Tree};
use lode_pmem::Mapping;
use lode_testing::{heap, memory, tree};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound::Included;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

type Medium = Arc<Mapping>;

const THREADS: u64 = 4;

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
}

fn get(tree: &Tree<'_, Medium>, tx: &Tx<'_, Medium>, key: u64) -> Result<u64, IndexError> {
    tree.get_in(tx, &key.to_be_bytes()).map(number)
}

fn put(tree: &Tree<'_, Medium>, tx: &Tx<'_, Medium>, key: u64, value: u64) -> Result<(), IndexError> {
    tree.insert_in(tx, &key.to_be_bytes(), &value.to_le_bytes()).map(drop)
}

fn in_threads(each: impl Fn(u64, &mut fastrand::Rng) + Sync) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let each = &each;
            scope.spawn(move || each(thread, &mut fastrand::Rng::with_seed(thread)));
        }
    });
}

/// Balances are read by `get_in` and written by `insert_in`: none is lost, and each sum that a closure sees is right.
#[test]
fn bank_keeps_its_total() {
    const ACCOUNTS: u64 = 100;
    const TOTAL: u64 = 100_000;
    let heap = heap::create(memory::volatile(16 << 20));
    let tree = tree::create(&heap);
    for account in 0..ACCOUNTS {
        tree.insert(&account.to_be_bytes(), &(TOTAL / ACCOUNTS).to_le_bytes()).unwrap();
    }
    let sum = |tx: &Tx<'_, Medium>| {
        (0..ACCOUNTS).try_fold(0, |sum, key| Ok::<_, IndexError>(sum + get(&tree, tx, key)?))
    };
    in_threads(|thread, rng| {
        for step in 0..2_000 {
            let (from, to, amount) = (rng.u64(..ACCOUNTS), rng.u64(..ACCOUNTS), rng.u64(..10));
            heap.run(|tx| {
                let left = get(&tree, tx, from)?;
                let amount = amount.min(left);
                put(&tree, tx, from, left - amount)?;
                let old = get(&tree, tx, to)?;
                put(&tree, tx, to, old + amount)
            })
            .unwrap();
            if step % 100 == thread {
                assert_eq!(heap.run(sum), Ok(TOTAL));
            }
        }
    });
    assert_eq!(heap.run(sum), Ok(TOTAL));
    tree::check(&heap, &tree, ACCOUNTS);
}

/// Two keys, of which one may be 0 only while the other is 1: each transaction reads both and changes one.
#[test]
fn write_skew_is_refused() {
    let heap = heap::create(memory::volatile(16 << 20));
    let tree = tree::create(&heap);
    // Far from each other in the tree, so that no node guards both.
    let keys = [1u64 << 40, 1 << 50];
    for key in keys {
        tree.insert(&key.to_be_bytes(), &1u64.to_le_bytes()).unwrap();
        tree.insert(&(key + 1).to_be_bytes(), b"neighbour").unwrap();
    }
    in_threads(|thread, _| {
        for _ in 0..2_000 {
            heap.run(|tx| {
                let both = [get(&tree, tx, keys[0])?, get(&tree, tx, keys[1])?];
                assert_ne!(both, [0, 0]);
                let mine = (thread % 2) as usize;
                let next = if both[mine] == 0 { 1 } else { 1 - both[1 - mine] };
                put(&tree, tx, keys[mine], next)
            })
            .unwrap();
        }
    });
}

/// A key is added only if its rival is absent: both are never there.
#[test]
fn absence_is_validated() {
    let heap = heap::create(memory::volatile(16 << 20));
    let tree = tree::create(&heap);
    let key = |side: u64| [&[side as u8; 3][..], b"key"].concat();
    in_threads(|thread, _| {
        let mine = thread % 2;
        for _ in 0..2_000 {
            heap.run(|tx| {
                let is_there = tree.get_in(tx, &key(1 - mine))?.is_some();
                if tree.delete_in(tx, &key(mine))? {
                    assert!(!is_there);
                    return Ok(());
                }
                if !is_there {
                    tree.insert_in(tx, &key(mine), b"")?;
                }
                Ok::<_, IndexError>(())
            })
            .unwrap();
        }
    });
}

/// The count goes with the keys that a transaction finds.
#[test]
fn count_is_validated() {
    let heap = heap::create(memory::volatile(16 << 20));
    let tree = tree::create(&heap);
    in_threads(|_, rng| {
        for _ in 0..500 {
            let key = rng.u64(..20);
            heap.run(|tx| {
                let found = (0..20u64).try_fold(0, |found, key| {
                    Ok::<_, IndexError>(found + u64::from(tree.get_in(tx, &key.to_be_bytes())?.is_some()))
                })?;
                assert_eq!(tree.count_in(tx)?, found);
                if !tree.delete_in(tx, &key.to_be_bytes())? {
                    tree.insert_in(tx, &key.to_be_bytes(), &found.to_le_bytes())?;
                }
                Ok::<_, IndexError>(())
            })
            .unwrap();
        }
    });
}

/// Writers of other keys restart no transaction, though they change the nodes that it reads, and take locks of all
/// stripes.
#[test]
fn writers_of_other_keys_restart_nobody() {
    let heap = heap::create(memory::volatile(64 << 20));
    let tree = tree::create(&heap);
    for key in 0..64u64 {
        put_alone(&heap, &tree, key << 8, key);
    }
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(1);
            while !is_over.load(Ordering::Relaxed) {
                // Splits and grows nodes around the keys that are read, and fills the lock table.
                put_alone(&heap, &tree, rng.u64(..1 << 15) | 1, 7);
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut attempts = 0;
        for round in 0..200u64 {
            heap.run(|tx| {
                attempts += 1;
                let before = written.load(Ordering::Relaxed);
                for key in 0..64 {
                    assert_eq!(get(&tree, tx, key << 8)?, if key == 0 { round } else { key });
                }
                // The writer changes something between the reads and the commit.
                while written.load(Ordering::Relaxed) < before + 3 {
                    thread::yield_now();
                }
                put(&tree, tx, 0, round + 1)
            })
            .unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(attempts <= 210, "{attempts} attempts of 200 transactions");
    });
}

/// A node that is replaced by a larger or smaller one restarts no transaction that has found other keys in it, found
/// none, passed it by, or scanned another part of it. A key that is added where the transaction has read restarts it.
#[test]
fn replaced_nodes_restart_nobody() {
    let heap = heap::create(memory::volatile(16 << 20));
    let tree = tree::create(&heap);
    let key = |byte: u8| [&b"node"[..], &[byte], b"key"].concat();
    let scan = |tx: &Tx<'_, Medium>, is_reversed: bool| -> Result<usize, IndexError> {
        let range = tree.range_in::<Vec<u8>>(tx, (Included(key(1)), Included(key(2))))?;
        let found: Result<Vec<_>, _> = if is_reversed { range.rev().collect() } else { range.collect() };
        found.map(|found| found.len())
    };
    type Read<'a> = &'a dyn Fn(&Tx<'_, Medium>) -> Result<usize, IndexError>;
    let is_there = |tx: &Tx<'_, Medium>, key: &[u8]| Ok(usize::from(tree.get_in(tx, key)?.is_some()));
    // A read of keys, and a key whose insertion changes its result.
    let reads: [(Read<'_>, Vec<u8>); 5] = [
        (&|tx| is_there(tx, &key(200)), key(200)),
        (&|tx| is_there(tx, b"node"), b"node".to_vec()),
        (&|tx| is_there(tx, b"nope"), b"nope".to_vec()),
        (&|tx| scan(tx, false), [&key(1)[..], b"and"].concat()),
        (&|tx| scan(tx, true), [&key(1)[..], b"more"].concat()),
    ];
    tree.insert(b"elsewhere", b"").unwrap();
    let add = |bytes: Range<u8>| bytes.for_each(|byte| assert!(!tree.insert(&key(byte), b"").unwrap()));
    let remove = |bytes: Range<u8>| bytes.for_each(|byte| assert!(tree.delete(&key(byte)).unwrap()));
    add(0..4);
    // Returns the number of attempts of a transaction with this read that `change` meets.
    let attempts = |read: Read<'_>, change: &(dyn Fn() + Sync)| {
        let attempts = Cell::new(0);
        let done: Result<(), IndexError> = heap.run(|tx| {
            read(tx)?;
            if attempts.replace(attempts.get() + 1) == 0 {
                thread::scope(|scope| scope.spawn(change).join()).unwrap();
            }
            tree.insert_in(tx, b"elsewhere", b"changed").map(drop)
        });
        done.unwrap();
        attempts.get()
    };
    for (number, (read, disturbing)) in reads.iter().enumerate() {
        for bytes in [8..20, 20..60, 60..120] {
            assert_eq!(attempts(*read, &|| add(bytes.clone())), 1, "read {number}, keys {bytes:?} added");
        }
        for bytes in [60..120, 20..60, 8..20] {
            assert_eq!(
                attempts(*read, &|| remove(bytes.clone())),
                1,
                "read {number}, keys {bytes:?} removed"
            );
        }
        let grow_and_disturb = || {
            add(8..20);
            tree.insert(disturbing, b"").unwrap();
        };
        assert_eq!(attempts(*read, &grow_and_disturb), 2, "read {number}");
        remove(8..20);
        assert!(tree.delete(disturbing).unwrap());
    }
    tree::check(&heap, &tree, 5);
}

fn put_alone(heap: &Heap<Medium>, tree: &Tree<'_, Medium>, key: u64, value: u64) {
    heap.run(|tx| put(tree, tx, key, value)).unwrap();
}

/// A transaction that reads much ends beside writers that change what it reads all the time.
#[test]
fn short_writers_do_not_starve_long_transaction() {
    const KEYS: u64 = 2_000;
    let heap = heap::create(memory::volatile(16 << 20));
    let tree = tree::create(&heap);
    for key in 0..KEYS {
        put_alone(&heap, &tree, key, 1);
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..THREADS - 1 {
            let (heap, tree, is_over) = (&heap, &tree, &is_over);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                while !is_over.load(Ordering::Relaxed) {
                    let (from, to) = (rng.u64(..KEYS), rng.u64(..KEYS));
                    heap.run(|tx| {
                        let left = get(tree, tx, from)?;
                        put(tree, tx, from, left.wrapping_sub(1))?;
                        let old = get(tree, tx, to)?;
                        put(tree, tx, to, old.wrapping_add(1))
                    })
                    .unwrap();
                }
            });
        }
        for _ in 0..5 {
            let sum = heap.run(|tx| {
                let sum = (0..KEYS)
                    .try_fold(0u64, |sum, key| Ok::<_, IndexError>(sum.wrapping_add(get(&tree, tx, key)?)))?;
                put(&tree, tx, KEYS, sum)?;
                Ok::<_, IndexError>(sum)
            });
            assert_eq!(sum, Ok(KEYS));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Each transaction scans a range and adds a key to it, with the next number: no number is drawn twice.
#[test]
fn phantoms_are_refused() {
    const DRAWS: u64 = 150;
    let heap = heap::create(memory::volatile(64 << 20));
    let tree = tree::create(&heap);
    in_threads(|thread, rng| {
        for draw in 0..DRAWS {
            // Prefixes of each other, long common parts, and nodes of all sizes.
            let key =
                [&[b'k'][..], &vec![rng.u8(..4); rng.usize(..30)], &(thread << 32 | draw).to_le_bytes()]
                    .concat();
            let is_backward = rng.bool();
            heap.run(|tx| {
                let mut last = 0;
                let range = tree.prefix_in(tx, b"k")?;
                let entries: Vec<_> = if is_backward { range.rev().collect() } else { range.collect() };
                for entry in entries {
                    last = last.max(number(Some(entry?.value.into_vec())));
                }
                tree.insert_in(tx, &key, &(last + 1).to_le_bytes())
            })
            .unwrap();
            // Outside of the range.
            tree.insert(&[&b"l"[..], &key].concat(), &key).unwrap();
        }
    });
    let mut numbers: Vec<u64> = heap
        .run(|tx| {
            tree.prefix_in(tx, b"k")?
                .map(|entry| entry.map(|entry| number(Some(entry.value.into_vec()))))
                .collect()
        })
        .unwrap_or_else(|error: IndexError| panic!("{error}"));
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=THREADS * DRAWS).collect::<Vec<_>>());
}

/// A scan in a transaction returns what an ordered map with the same changes would.
#[test]
fn scan_sees_own_changes() {
    let heap = heap::create(memory::volatile(16 << 20));
    let tree = tree::create(&heap);
    let mut model = BTreeMap::<Vec<u8>, Vec<u8>>::new();
    let mut rng = fastrand::Rng::with_seed(3);
    let key = |rng: &mut fastrand::Rng| {
        let len = rng.usize(..4);
        [&[b'a', b'b'][..], &vec![7; rng.usize(..2) * 20], &(0..len).map(|_| rng.u8(..5)).collect::<Vec<_>>()]
            .concat()
    };
    for _ in 0..60 {
        let mut after = model.clone();
        let done: Result<(), IndexError> = heap.run(|tx| {
            for _ in 0..20 {
                let (from, to) = (key(&mut rng), key(&mut rng));
                if from <= to {
                    let want: Vec<_> = after.range(from.clone()..=to.clone()).collect();
                    let entry = |entry: lode_index::Entry| (entry.key, entry.value.into_vec());
                    let scan = tree.range_in::<&[u8]>(tx, &from[..]..=&to[..])?;
                    let found = scan.map(|found| found.map(entry)).collect::<Result<Vec<_>, _>>()?;
                    assert!(found.iter().map(|(key, value)| (key, value)).eq(want.iter().copied()));
                    let scan = tree.range_in::<&[u8]>(tx, &from[..]..=&to[..])?.rev();
                    let found = scan.map(|found| found.map(entry)).collect::<Result<Vec<_>, _>>()?;
                    assert!(found.iter().map(|(key, value)| (key, value)).eq(want.iter().rev().copied()));
                }
                let changed = key(&mut rng);
                if rng.bool() {
                    tree.insert_in(tx, &changed, &from)?;
                    after.insert(changed, from);
                } else {
                    tree.delete_in(tx, &changed)?;
                    after.remove(&changed);
                }
            }
            // Removes keys as the scan goes on.
            let mut kept = 0;
            for found in tree.range_in::<&[u8]>(tx, ..)? {
                let found = found?.key;
                kept += 1;
                if kept % 3 == 0 {
                    assert!(tree.delete_in(tx, &found)?);
                    after.remove(&found);
                    if let Some((next, _)) =
                        after.range(found..).next().map(|(key, value)| (key.clone(), value.clone()))
                    {
                        tree.delete_in(tx, &next)?;
                        after.remove(&next);
                    }
                }
            }
            assert_eq!(tree.count_in(tx)?, after.len() as u64);
            Ok(())
        });
        done.unwrap();
        model = after;
    }
    tree::check(&heap, &tree, model.len() as u64);
}
