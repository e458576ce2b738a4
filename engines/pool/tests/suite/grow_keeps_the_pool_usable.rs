//! A pool grows while it is open. A growth that is refused leaves the pool unchanged and usable.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fixture::{SIZE, create, creating, folder, no_content, opening};
use lode_layout::{CHUNK, Geometry, GeometryError};
use lode_pmem::{FaultScope, Medium};
use lode_pool::{Access, CreateOptions, PoolError, PoolFile, Publish, check_headers};
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

/// The size up to which a pool grows by itself is kept, and not below its size.
#[test]
fn maximum_is_recorded() {
    let folder = folder();
    let path = folder.path().join("pool");
    let with_max = |size_max| CreateOptions { size_max, ..creating(SIZE) };
    let error = PoolFile::create(&path, &with_max(Some(SIZE - 1)), no_content).unwrap_err();
    assert!(matches!(error.cause(), PoolError::MaximumTooSmall { .. }), "{error}");
    assert!(!path.exists());
    let pool = PoolFile::create(&path, &with_max(Some(SIZE + CHUNK + 1)), no_content).unwrap();
    assert_eq!(pool.header().size_max, SIZE + CHUNK);
    let install = |_: &Geometry, publish: &mut Publish<'_>| publish();
    pool.grower().grow_for(1, install).unwrap();
    assert_eq!(pool.header().geometry.size(), SIZE + CHUNK);
    let error: PoolError = pool.grower().grow_for(1, install).unwrap_err();
    assert!(matches!(error, PoolError::Maximum { .. }), "{error}");
    let error = pool.set_size_max(Some(SIZE)).unwrap_err();
    assert!(matches!(error.cause(), PoolError::MaximumTooSmall { .. }), "{error}");
    pool.set_size_max(Some(128 << 30)).unwrap();
    let grower = pool.grower();
    drop(pool);
    assert!(grower.grow_for(1, install).is_err(), "the pool is closed");
    let pool = PoolFile::open(&path, &opening(Access::ReadWrite)).unwrap();
    assert_eq!(pool.header().size_max, 128 << 30);
    assert!(pool.medium().memory().reserved() >= 128 << 30, "there are addresses for it");
    pool.set_size_max(None).unwrap();
    let error: PoolError = pool.grower().grow_for(1, install).unwrap_err();
    assert!(matches!(error, PoolError::FixedSize), "{error}");
}

/// What is left of the disk is used before the growth is refused.
#[test]
fn smaller_step_follows_where_disk_is_full() {
    let Some(disk) = SmallDisk::mount("smaller_step_follows_where_disk_is_full", 2 << 20) else { return };
    let options = CreateOptions { size_max: Some(1 << 40), ..creating(1 << 20) };
    let pool = PoolFile::create(&disk.pool(), &options, no_content).unwrap();
    fs::write(disk.folder().join("filler"), vec![1; 700 << 10]).unwrap();
    let install = |_: &Geometry, publish: &mut Publish<'_>| publish();
    pool.grower().grow_for(1, install).unwrap();
    let size = pool.header().geometry.size();
    assert!(size > 1 << 20 && size < 3 << 19, "{size}");
    let error: PoolError = pool.grower().grow_for(1 << 20, install).unwrap_err();
    assert!(matches!(error, PoolError::Io { .. }), "{error}");
    assert_eq!(pool.header().geometry.size(), size);
}
