//! Transactions that use maps of typed data run as if one after the other, also when maps are made, cleared and freed.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_fsck::check_pool;
use lode_heap::{HeapError, PBox, PCell, Persist, TypedHeap, TypedTx};
use lode_index::{PMap, StoreLayout};
use lode_pmem::Mapping;
use lode_testing::{kv, memory};
use std::sync::Arc;
use std::thread;

lode_heap::brand!(Shop);

type Heap = TypedHeap<Shop, Arc<Mapping>>;
type Tx<'a> = TypedTx<'a, Shop, Arc<Mapping>>;

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Root {
    shelf: PBox<Shelf, Shop>,
    seen: PCell<u64, Shop>,
}

/// Two maps that always have the same keys.
#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Shelf {
    one: PMap<u64, u64, Shop>,
    other: PMap<String, u64, Shop>,
}

fn shelf() -> Shelf {
    Shelf { one: PMap::new(), other: PMap::new() }
}

fn make(heap: &Heap) -> &Root {
    let root = heap.root_or_init(|_| Ok(Root { shelf: PBox::null(), seen: PCell::new(0) })).unwrap();
    heap.run(|tx| root.shelf.set(tx, tx.alloc(shelf())?)).unwrap();
    root
}

fn one<'t>(root: &'t Root, tx: &'t Tx<'_>) -> Result<&'t PMap<u64, u64, Shop>, HeapError> {
    Ok(&root.shelf.get(tx)?.unwrap().one)
}

/// Checks that a transaction which stores the result of `read` starts again if `change` commits after the read. Returns what it
/// stored in the end.
#[track_caller]
fn read_before(
    heap: &Heap,
    root: &Root,
    read: impl Fn(&Tx<'_>) -> Result<u64, HeapError>,
    change: impl Fn(&Tx<'_>) -> Result<(), HeapError> + Sync,
) -> u64 {
    let mut attempts = 0;
    heap.run(|tx| {
        attempts += 1;
        let seen = read(tx)?;
        if attempts == 1 {
            thread::scope(|scope| scope.spawn(|| heap.run(|tx| change(tx))).join().unwrap())?;
        }
        root.seen.set(tx, seen)
    })
    .unwrap();
    assert_eq!(attempts, 2, "the read does not hold, so the closure starts again once");
    heap.run(|tx| root.seen.get(tx)).unwrap()
}

#[test]
fn changes_of_what_was_read_are_conflicts() {
    let heap = Heap::new(kv::create_empty(4 << 20, "shop"));
    let root = make(&heap);
    let get = |key: u64| move |tx: &Tx<'_>| Ok(one(root, tx)?.get(tx, key)?.unwrap_or(99));
    let insert = |key: u64| move |tx: &Tx<'_>| one(root, tx)?.insert(tx, key, key).map(drop);
    // That a map is empty is read, too.
    assert_eq!(read_before(&heap, root, get(5), insert(5)), 5);
    assert_eq!(read_before(&heap, root, get(6), insert(6)), 6);
    assert_eq!(read_before(&heap, root, |tx| one(root, tx)?.len(tx), insert(7)), 3);
    let sum = |tx: &Tx<'_>| {
        let mut range = one(root, tx)?.range(tx, 6..)?;
        range.try_fold(0, |sum, entry| Ok(sum + entry?.0))
    };
    assert_eq!(read_before(&heap, root, sum, insert(8)), 6 + 7 + 8);
    let clear = |tx: &Tx<'_>| one(root, tx)?.clear(tx);
    assert_eq!(read_before(&heap, root, get(8), clear), 99);
    heap.run(insert(8)).unwrap();
    let replace = |tx: &Tx<'_>| root.shelf.set(tx, tx.alloc(shelf())?);
    assert_eq!(read_before(&heap, root, get(8), replace), 99);
    heap.run(insert(8)).unwrap();
    assert_eq!(
        read_before(&heap, root, |tx| Ok(one(root, tx)?.last(tx)?.map_or(99, |last| last.0)), clear),
        99
    );
}

#[test]
fn other_keys_are_no_conflict() {
    let heap = Heap::new(kv::create_empty(4 << 20, "shop"));
    let root = make(&heap);
    heap.run(|tx| (0..50).try_for_each(|key| one(root, tx)?.insert(tx, key, 0).map(drop))).unwrap();
    let mut attempts = 0;
    heap.run(|tx| {
        attempts += 1;
        assert_eq!(one(root, tx)?.get(tx, 7)?, Some(0));
        let other = || heap.run(|tx| one(root, tx)?.insert(tx, 8, 1).and(one(root, tx)?.insert(tx, 1000, 1)));
        thread::scope(|scope| scope.spawn(other).join().unwrap())?;
        one(root, tx)?.insert(tx, 9, 2).map(drop)
    })
    .unwrap();
    assert_eq!(attempts, 1);
}

/// Threads insert, remove, clear and free beside each other, and beside readers.
#[test]
fn threads_keep_maps_in_step() {
    const STEPS: u64 = 1500;
    let heap = kv::create_empty(16 << 20, "shop");
    let medium = Arc::clone(heap.medium());
    let heap = Heap::new(heap);
    let root = make(&heap);
    let change = |tx: &Tx<'_>, random: &mut fastrand::Rng| {
        let shelf = root.shelf.get(tx)?.unwrap();
        let key = random.u64(..200) * 77;
        match random.u8(..100) {
            0 => return root.shelf.set(tx, tx.alloc(self::shelf())?),
            1..3 => {
                shelf.one.clear(tx)?;
                shelf.other.clear(tx)?;
            }
            3..60 => {
                let old = shelf.one.insert(tx, key, key)?;
                assert_eq!(shelf.other.insert(tx, key.to_string(), key)?, old);
            }
            60..80 => {
                let old = shelf.one.remove(tx, key)?;
                assert_eq!(shelf.other.remove(tx, key.to_string())?, old);
            }
            80..90 => {
                assert_eq!(shelf.one.get(tx, key)?, shelf.other.get(tx, key.to_string())?);
                assert_eq!(shelf.one.len(tx)?, shelf.other.len(tx)?);
            }
            _ => {
                let sum = |sum: u64, value: u64| sum + value;
                let one = shelf.one.range(tx, ..)?.map(|entry| Ok(entry?.1));
                let other = shelf.other.range(tx, ..)?.rev().map(|entry| Ok(entry?.1));
                let [one, other] = [
                    one.collect::<Result<Vec<_>, HeapError>>()?,
                    other.collect::<Result<Vec<_>, HeapError>>()?,
                ];
                assert_eq!(one.into_iter().fold(0, sum), other.into_iter().fold(0, sum));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        for thread in 0..3 {
            let (heap, change) = (&heap, &change);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for _ in 0..STEPS {
                    let start = random.clone();
                    heap.run(|tx| {
                        random = start.clone();
                        change(tx, &mut random)
                    })
                    .unwrap();
                }
            });
        }
        let heap = &heap;
        scope.spawn(move || {
            let mut random = fastrand::Rng::with_seed(9);
            for _ in 0..STEPS {
                let guard = heap.guard();
                let shelf = root.shelf.load(&guard).unwrap().unwrap();
                let key = random.u64(..200) * 77;
                assert!(shelf.one.load(&guard, key).unwrap().is_none_or(|value| value == key));
                for entry in shelf.other.load_range(&guard, "5"..) {
                    let (key, value) = entry.unwrap();
                    assert_eq!(key, value.to_string());
                }
                shelf.one.load_len(&guard).unwrap();
            }
        });
    });
    heap.close().unwrap();
    let report = check_pool(Arc::new(memory::from_bytes(&memory::bytes(&medium))), &[&StoreLayout]);
    assert!(report.is_clean() && report.traced, "{report}");
}
