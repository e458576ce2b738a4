//! A pool in a file grows when a transaction finds no space, up to its maximum, and its log with it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_heap::{Access, CreateOptions, Durability, GrowthRefusal, HeapError, LayoutName, OpenOptions, Pool};
use lode_layout::{CHUNK, Geometry, PoolOffset, SPAN_HEADER};
use lode_testing::{SmallDisk, scaled};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;

/// Number of slots in the root object.
const SLOTS: u64 = 512;

fn options(size: u64, size_max: Option<u64>) -> CreateOptions {
    CreateOptions {
        size_max,
        durability: Some(Durability::None),
        ..CreateOptions::new(size, LayoutName::new("mine").unwrap())
    }
}

fn create(path: &Path, size: u64, size_max: Option<u64>) -> Pool {
    let pool = Pool::create(path, &options(size, size_max)).unwrap();
    pool.heap()
        .run(|tx| {
            let root = tx.alloc_zeroed(SLOTS * 8, 16, 1)?;
            tx.set_root(root);
            Ok::<_, HeapError>(())
        })
        .unwrap();
    pool
}

fn open(path: &Path) -> Pool {
    let opening = OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(Access::ReadWrite) };
    Pool::open(path, &opening).unwrap()
}

fn slot(pool: &Pool, slot: u64) -> PoolOffset {
    pool.heap().root().unwrap().plus(slot % SLOTS * 8)
}

/// Replaces the object of a slot by one of `words` words, and frees the old one.
fn put(pool: &Pool, number: u64, words: u64) -> Result<(), HeapError> {
    let at = slot(pool, number);
    pool.heap().run(|tx| {
        tx.lock(at)?;
        let old = PoolOffset::new(tx.load8(at));
        let content: Vec<u64> = (0..words).map(|word| number + word).collect();
        let new = tx.alloc_with(&content, 16, 2)?;
        tx.store8(at, new.get());
        if !old.is_null() {
            tx.free(old)?;
        }
        Ok(())
    })
}

/// Returns the first word of a slot's object, after a look at all words.
fn get(pool: &Pool, number: u64, words: u64) -> u64 {
    let at = slot(pool, number);
    let read = pool.heap().memory().reading(|memory| {
        let object = PoolOffset::new(memory.load8(at));
        let first = memory.load8(object);
        (first, (0..words).all(|word| memory.load8(object.plus(word * 8)) == first + word))
    });
    let (first, is_whole) = read.unwrap();
    assert!(is_whole, "the object of slot {number}");
    first
}

/// Returns the bytes of the pool that are not free.
fn used(pool: &Pool) -> u64 {
    size(pool) - pool.heap().stats().unwrap().free_bytes()
}

fn size(pool: &Pool) -> u64 {
    pool.header().geometry.size()
}

#[test]
fn full_pool_grows_with_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = create(&path, 256 << 10, Some(1 << 40));
    let lens = [3, 30, 200, 900, 6000];
    let words = |number: u64| lens[number as usize % lens.len()];
    for number in 0..SLOTS {
        put(&pool, number, words(number)).unwrap();
    }
    let (size, log_len) = (size(&pool), pool.header().geometry.log_len());
    // The last step was a third of what the pool has now.
    assert!(size > 4 << 20 && size <= used(&pool) * 3 / 2 + size / 3, "{size} for {}", used(&pool));
    assert!(log_len * 2 > Geometry::log_len_of(size), "the log has {log_len} of {size}");
    assert_eq!(fs::metadata(&path).unwrap().len(), size);
    drop(pool);
    let pool = open(&path);
    assert_eq!(pool.header().geometry.log_len(), log_len);
    for number in 0..SLOTS {
        assert_eq!(get(&pool, number, words(number)), number);
    }
    pool.close().unwrap();
}

/// Objects, and transactions, that are larger than the whole pool.
#[test]
fn pool_grows_for_what_is_larger_than_itself() {
    let folder = tempfile::tempdir().unwrap();
    let pool = create(&folder.path().join("pool"), 128 << 10, Some(1 << 40));
    put(&pool, 0, 1 << 17).unwrap();
    assert!(size(&pool) < 8 << 20, "{} for 1 MiB", size(&pool));
    put(&pool, 1, 1 << 20).unwrap();
    assert_eq!((get(&pool, 0, 1 << 17), get(&pool, 1, 1 << 20)), (0, 1));
    let pool = create(&folder.path().join("other"), 128 << 10, Some(1 << 40));
    let first = pool.heap().run(|tx| {
        let objects = (0..2000).map(|number| tx.alloc_with(&[number; 100], 16, 3));
        objects.collect::<Result<Vec<_>, HeapError>>()
    });
    let objects = first.unwrap();
    let read =
        |at: &PoolOffset| pool.heap().memory().reading(|memory| memory.load8(at.plus(99 * 8))).unwrap();
    assert!(objects.iter().zip(0..).all(|(at, number)| read(at) == number));
}

#[test]
fn maximum_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let pool = create(&folder.path().join("pool"), 128 << 10, Some(1 << 20));
    let fill = |from: u64| (from..SLOTS).find_map(|number| Some((number, put(&pool, number, 900).err()?)));
    let (full, error) = fill(0).unwrap();
    let refusal = GrowthRefusal::Maximum { size_max: 1 << 20 };
    assert!(matches!(error, HeapError::CannotGrow { refusal: found, .. } if found == refusal), "{error}");
    assert_eq!(size(&pool), 1 << 20);
    assert!(used(&pool) > 700 << 10, "{} are used", used(&pool));
    // Space that is freed serves again, and a greater maximum helps.
    pool.heap()
        .run(|tx| {
            let at = slot(&pool, 0);
            tx.lock(at)?;
            tx.free(PoolOffset::new(tx.load8(at)))?;
            tx.store8(at, 0);
            Ok::<_, HeapError>(())
        })
        .unwrap();
    put(&pool, full, 900).unwrap();
    pool.file().set_size_max(Some(16 << 20)).unwrap();
    assert_eq!(fill(full + 1).map(|(_, error)| error), None);
    assert!(size(&pool) > 1 << 20);
    for number in 1..SLOTS {
        assert_eq!(get(&pool, number, 900), number);
    }
    // Without a maximum the pool keeps its size.
    let pool = create(&folder.path().join("fixed"), 128 << 10, None);
    let error = (0..SLOTS).find_map(|number| put(&pool, number, 900).err()).unwrap();
    assert!(matches!(error, HeapError::OutOfSpace { .. }), "{error}");
    assert_eq!(size(&pool), 128 << 10);
}

/// A full disk is an error of the transaction; all before it is there, and the pool is usable.
#[test]
fn full_disk_is_an_error() {
    let Some(disk) = SmallDisk::mount("small_disk", 4 << 20) else { return };
    let pool = create(&disk.pool(), 256 << 10, Some(1 << 40));
    let (full, error) =
        (0..SLOTS).find_map(|number| Some((number, put(&pool, number, 6000).err()?))).unwrap();
    let is_disk_full = |error: &HeapError| {
        matches!(error, HeapError::CannotGrow { refusal: GrowthRefusal::DiskFull { .. }, .. })
    };
    assert!(is_disk_full(&error), "{error}");
    assert!(size(&pool) > 3 << 20, "the last growth took what was left: {}", size(&pool));
    assert!(is_disk_full(&put(&pool, full, 6000).unwrap_err()));
    for number in 0..full {
        put(&pool, number, 20).unwrap();
    }
    put(&pool, full, 6000).unwrap();
    drop(pool);
    let pool = open(&disk.pool());
    for number in 0..full {
        assert_eq!(get(&pool, number, 20), number);
    }
    assert_eq!(get(&pool, full, 6000), full);
}

/// A request that even the largest pool has no room for leaves the pool as it is, and one that just fits is granted.
#[test]
fn request_beyond_the_maximum_grows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let size_max = 1 << 20;
    let pool = create(&folder.path().join("pool"), 128 << 10, Some(size_max));
    // Makes the object that leads to the others.
    put(&pool, 0, 1).unwrap();
    let before = size(&pool);
    let room = size_max - before + pool.heap().stats().unwrap().free_chunk_bytes;
    let error = put(&pool, 100, room / 8 + 1).unwrap_err();
    let refusal = GrowthRefusal::Maximum { size_max };
    assert!(matches!(error, HeapError::CannotGrow { refusal: found, .. } if found == refusal), "{error}");
    assert_eq!(size(&pool), before);
    // A longer log would take a part of this room. The record of the transaction takes chunks meanwhile.
    let words = (room - 2 * CHUNK - SPAN_HEADER) / 8;
    put(&pool, 100, words).unwrap();
    assert_eq!((size(&pool), get(&pool, 100, words)), (size_max, 100));
}

/// A file may not become longer than the process may write. This is an error, and no signal ends the process.
#[test]
fn file_size_limit_is_an_error() {
    // `ulimit -f` counts blocks of 512 bytes.
    let limit: u64 = 3 << 20;
    let is_limited = fs::read_to_string("/proc/self/limits").unwrap().lines().any(|line| {
        line.strip_prefix("Max file size")
            .is_some_and(|rest| rest.split_whitespace().next() == Some(&limit.to_string()))
    });
    if !is_limited {
        let run = format!("ulimit -f {}; exec \"$@\"", limit / 512);
        let name = "pools_grow_by_themselves::file_size_limit_is_an_error";
        let mut shell = Command::new("sh");
        let limited =
            shell.args(["-c", &run, "sh"]).arg(env::current_exe().unwrap()).args([name, "--exact"]).output();
        let limited = limited.unwrap();
        assert!(limited.status.success(), "{limited:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = create(&path, 256 << 10, Some(1 << 40));
    let (full, error) =
        (0..SLOTS).find_map(|number| Some((number, put(&pool, number, 6000).err()?))).unwrap();
    let HeapError::CannotGrow { refusal: GrowthRefusal::FileSize { size: refused }, .. } = error else {
        panic!("{error}")
    };
    assert!(refused > limit && size(&pool) <= limit && size(&pool) > limit - (128 << 10), "{}", size(&pool));
    put(&pool, 0, 20).unwrap();
    put(&pool, full, 3000).unwrap();
    pool.close().unwrap();
    let pool = open(&path);
    assert_eq!((get(&pool, 0, 20), get(&pool, full, 3000)), (0, full));
}

/// Space that is freed serves again before the pool grows.
#[test]
fn overwrites_leave_size_alone() {
    let folder = tempfile::tempdir().unwrap();
    for words in [8, 60, 300, 1500, 6000] {
        for threads in [1, 2] {
            let path = folder.path().join(format!("pool{words}-{threads}"));
            let pool = create(&path, 256 << 10, Some(1 << 40));
            let rounds = |count: u64| {
                std::thread::scope(|scope| {
                    for thread in 0..threads {
                        let pool = &pool;
                        scope.spawn(move || {
                            for round in 0..count {
                                put(pool, round % 64 * threads + thread, words).unwrap();
                            }
                        });
                    }
                });
            };
            rounds(200);
            let before = (size(&pool), used(&pool));
            rounds(scaled(4000));
            let after = (size(&pool), used(&pool));
            // Space that waits for another thread's transaction can't serve meanwhile.
            let spare = if threads == 1 { 0 } else { before.0 / 2 };
            assert!(after.0 <= before.0 + spare, "{words} words, {threads} threads: {before:?} {after:?}");
        }
    }
}

/// Threads that find no space at once, while others commit.
#[test]
fn threads_fill_one_pool() {
    let folder = tempfile::tempdir().unwrap();
    for durability in [Durability::None, Durability::Line, Durability::Commit] {
        let path = folder.path().join(durability.to_string());
        let options = CreateOptions { durability: Some(durability), ..options(128 << 10, Some(1 << 40)) };
        let pool = Pool::create(&path, &options).unwrap();
        pool.heap()
            .run(|tx| {
                let root = tx.alloc_zeroed(SLOTS * 8, 16, 1)?;
                tx.set_root(root);
                Ok::<_, HeapError>(())
            })
            .unwrap();
        let words = |number: u64| [20, 100, 700, 3000][number as usize % 4];
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (pool, start) = (&pool, &start);
                scope.spawn(move || {
                    start.wait();
                    for number in (thread..SLOTS).step_by(4) {
                        put(pool, number, words(number)).unwrap();
                    }
                });
            }
        });
        assert!(size(&pool) > 2 << 20);
        let log_len = pool.header().geometry.log_len();
        assert!(log_len >= 128 << 10, "{log_len}");
        drop(pool);
        let opening = OpenOptions { durability: Some(durability), ..OpenOptions::new(Access::ReadWrite) };
        let pool = Pool::open(&path, &opening).unwrap();
        for number in 0..SLOTS {
            assert_eq!(get(&pool, number, words(number)), number, "{durability}");
        }
    }
}
