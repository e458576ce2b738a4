//! A pool in a file, under a brand: it is a pool like any other, grows while it is open, and comes back.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::{Access, CreateOptions, Durability, HeapError, LayoutName, OpenOptions, Pool};
use lode_heap::{PString, PVec, Persist, TypedPool};
use std::sync::Barrier;

lode_heap::brand!(Shelf);

#[derive(Persist)]
#[persist(brand = Shelf)]
#[repr(C)]
struct Root {
    name: PString<Shelf>,
    numbers: PVec<u64, Shelf>,
}

fn opening(access: Access) -> OpenOptions {
    OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(access) }
}

#[test]
fn full_pool_grows_and_reopens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let options = CreateOptions {
        size_max: None,
        durability: Some(Durability::None),
        ..CreateOptions::new(1 << 20, LayoutName::new("mine").unwrap())
    };
    let pool = TypedPool::<Shelf>::create(&path, &options).unwrap();
    let root = pool.root_or_init(|_| Ok(Root { name: PString::new(), numbers: PVec::new() })).unwrap();
    pool.run(|tx| root.name.set(tx, "on the shelf")).unwrap();
    let fill = || {
        (0..1 << 20).find_map(|number| {
            pool.run(|tx| root.numbers.push(tx, number)).err().map(|error| (number, error))
        })
    };
    let (count, error) = fill().unwrap();
    assert!(matches!(error, HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. }), "{error}");
    assert_eq!(pool.run(|tx| root.numbers.len(tx)).unwrap(), count, "the push that failed changed nothing");
    pool.grow(16 << 20).unwrap();
    pool.run(|tx| root.numbers.push(tx, 7)).unwrap();
    assert_eq!(pool.header().geometry.size(), 16 << 20);
    pool.close().unwrap();

    let pool = TypedPool::<Shelf>::open(&path, &opening(Access::ReadOnly)).unwrap();
    assert!(pool.recovery().was_closed);
    let root = pool.root::<Root>().unwrap().unwrap();
    let guard = pool.guard();
    assert_eq!(root.name.load(&guard).unwrap(), "on the shelf");
    assert_eq!(root.numbers.load_all(&guard).unwrap(), (0..count).chain([7]).collect::<Vec<_>>());
}

/// Whichever of two growers ends last, all that the larger one added is there.
#[test]
fn concurrent_growth() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = folder.path().join(format!("pool{round}"));
        let options = CreateOptions {
            durability: Some(Durability::None),
            ..CreateOptions::new(1 << 20, LayoutName::new("mine").unwrap())
        };
        let pool = Pool::create(&path, &options).unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|threads| {
            for odd in 0..2 {
                let (pool, start) = (&pool, &start);
                threads.spawn(move || {
                    start.wait();
                    for step in 1..=8 {
                        // Whichever is too small by now is refused.
                        let _ = pool.grow((1 << 20) + ((2 * step + odd) << 16));
                    }
                });
            }
        });
        let size = pool.header().geometry.size();
        let free = pool.heap().stats().unwrap().largest_free;
        assert!(size == (1 << 20) + (17 << 16) && free > size / 10 * 9, "round {round}: {free} of {size}");
        assert!(pool.heap().run(|tx| tx.alloc(free - 4096, 8, 1)).is_ok(), "round {round}");
    }
}
