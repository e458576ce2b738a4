//! A pool grows while it is open. A growth that is refused leaves the pool unchanged and usable.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fixture::{SIZE, create, creating, folder, no_content, opening};
use lode_layout::{CHUNK, GeometryError};
use lode_pmem::{FaultScope, Medium};
use lode_pool::{Access, PoolError, PoolFile, check_headers};
use lode_testing::SmallDisk;
use rustix::io::Errno;
use std::fs;

#[test]
fn growth_is_in_place_and_durable() {
    let folder = folder();
    let path = folder.path().join("pool");
    let pool = create(&path);
    let old = pool.header();
    let mark = old.geometry.extents()[0].start.plus(SIZE / 2);
    pool.medium().store8(mark, 42);
    for size in [SIZE + CHUNK + 1, 1 << 20, 33 << 20, 40 << 20] {
        pool.grow(size).unwrap();
        let geometry = pool.header().geometry;
        assert_eq!(geometry.size(), size / CHUNK * CHUNK);
        assert_eq!(fs::metadata(&path).unwrap().len(), geometry.size());
        let last = *geometry.extents().last().unwrap();
        let stored = FaultScope::run(|| pool.medium().store8(last.end().plus(0u64.wrapping_sub(8)), 1));
        assert_eq!(stored, Ok(()));
    }
    assert_eq!(pool.header().geometry.extents().len(), 2);
    assert_eq!(pool.medium().memory().reading(|memory| memory.load8(mark)).unwrap(), 42);
    let grown = pool.header();
    pool.medium().drain().unwrap();
    drop(pool);
    let pool = PoolFile::open(&path, &opening(Access::ReadOnly)).unwrap();
    assert_eq!(pool.header(), grown);
    assert_eq!(pool.medium().memory().reading(|memory| memory.load8(mark)).unwrap(), 42);
    assert_eq!(check_headers(&**pool.medium()), []);
}

#[test]
fn shrinking_is_refused() {
    let folder = folder();
    let pool = create(&folder.path().join("pool"));
    let error = pool.grow(SIZE - CHUNK).unwrap_err();
    assert!(matches!(error.cause(), PoolError::Geometry(GeometryError::Shrinks { .. })), "{error}");
    let generation = pool.header().generation;
    pool.grow(SIZE + 1).unwrap();
    assert_eq!((pool.header().geometry.size(), pool.header().generation), (SIZE, generation));
}

#[test]
fn interrupted_growth_is_completed() {
    let folder = folder();
    let path = folder.path().join("pool");
    drop(create(&path));
    // Stopped between the file's new length and the header: the file is longer than the pool.
    fs::File::options().write(true).open(&path).unwrap().set_len(2 << 20).unwrap();
    let pool = PoolFile::open(&path, &opening(Access::ReadWrite)).unwrap();
    assert_eq!(pool.header().geometry.size(), SIZE);
    for size in [1 << 20, 3 << 20] {
        pool.grow(size).unwrap();
        assert_eq!(pool.header().geometry.size(), size);
    }
}

#[test]
fn full_disk_fails_grow_without_change() {
    let Some(disk) = SmallDisk::mount("small_disk", 1 << 20) else { return };
    let pool = PoolFile::create(&disk.pool(), &creating(SIZE), no_content).unwrap();
    let before = pool.header();
    let error = pool.grow(8 << 20).unwrap_err();
    let PoolError::Io { errno, .. } = error.cause() else { panic!("{error}") };
    assert_eq!(*errno, Errno::NOSPC.raw_os_error());
    assert!(error.to_string().ends_with("free space, or choose a smaller size"), "{error}");
    assert_eq!((pool.header(), fs::metadata(disk.pool()).unwrap().len()), (before, SIZE));
    pool.grow(SIZE * 2).unwrap();
    assert_eq!(pool.header().geometry.size(), SIZE * 2);
}
