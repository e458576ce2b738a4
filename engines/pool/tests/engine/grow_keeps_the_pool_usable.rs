//! A pool grows while it is open. A growth that is refused leaves the pool unchanged and usable.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fixture::{SIZE, create, creating, folder, no_content, opening};
use lode_layout::{CHUNK, Durability, Geometry, GeometryError};
use lode_pmem::{FaultScope, Medium};
use lode_pool::{
    Access, CreateOptions, OpenOptions, PoolError, PoolFile, Publish, SpaceLimit, check_headers,
};
use lode_testing::SmallDisk;
use std::fs;

/// Accepts any geometry.
fn any(_: &Geometry) -> bool {
    true
}

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
    let PoolError::NoSpace { size, limit } = error.cause() else { panic!("{error}") };
    assert_eq!((*size, *limit), (8 << 20, SpaceLimit::Disk));
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
    pool.grower().grow_for(1, any, install).unwrap();
    assert_eq!(pool.header().geometry.size(), SIZE + CHUNK);
    let error: PoolError = pool.grower().grow_for(1, any, install).unwrap_err();
    assert!(matches!(error, PoolError::Maximum { .. }), "{error}");
    let error = pool.set_size_max(Some(SIZE)).unwrap_err();
    assert!(matches!(error.cause(), PoolError::MaximumTooSmall { .. }), "{error}");
    pool.set_size_max(Some(128 << 30)).unwrap();
    let grower = pool.grower();
    drop(pool);
    assert!(grower.grow_for(1, any, install).is_err(), "the pool is closed");
    let pool = PoolFile::open(&path, &opening(Access::ReadWrite)).unwrap();
    assert_eq!(pool.header().size_max, 128 << 30);
    assert!(pool.medium().memory().reserved() >= 128 << 30, "there are addresses for it");
    pool.set_size_max(None).unwrap();
    let error: PoolError = pool.grower().grow_for(1, any, install).unwrap_err();
    assert!(matches!(error, PoolError::FixedSize), "{error}");
}

/// What is left of the disk is used before the growth is refused.
#[test]
fn smaller_step_follows_where_disk_is_full() {
    let Some(disk) = SmallDisk::mount("small_disk", 2 << 20) else { return };
    let options = CreateOptions { size_max: Some(1 << 40), ..creating(1 << 20) };
    let pool = PoolFile::create(&disk.pool(), &options, no_content).unwrap();
    fs::write(disk.folder().join("filler"), vec![1; 700 << 10]).unwrap();
    let install = |_: &Geometry, publish: &mut Publish<'_>| publish();
    pool.grower().grow_for(1, any, install).unwrap();
    let size = pool.header().geometry.size();
    assert!(size > 1 << 20 && size < 3 << 19, "{size}");
    let error: PoolError = pool.grower().grow_for(1 << 20, any, install).unwrap_err();
    assert!(matches!(error, PoolError::NoSpace { limit: SpaceLimit::Disk, .. }), "{error}");
    assert_eq!(pool.header().geometry.size(), size);
}

/// A pool grows to any size if it is opened for that size; addresses are the limit of an open pool only.
#[test]
fn pool_opened_for_a_size_grows_to_it() {
    let Some(disk) = SmallDisk::mount("small_disk", 1 << 20) else { return };
    let options = CreateOptions { size_max: Some(128 << 10), ..creating(128 << 10) };
    drop(PoolFile::create(&disk.pool(), &options, no_content).unwrap());
    let pool = PoolFile::open(&disk.pool(), &opening(Access::ReadWrite)).unwrap();
    let reserved = pool.medium().memory().reserved();
    let error = pool.grow(reserved + CHUNK).unwrap_err();
    let PoolError::AddressSpace { size, .. } = error.cause() else { panic!("{error}") };
    assert_eq!(*size, reserved + CHUNK);
    assert!(error.to_string().contains("open the pool again for that size"), "{error}");
    drop(pool);
    for size in [512 << 10, 20 << 40] {
        let pool =
            PoolFile::open(&disk.pool(), &OpenOptions { grow_to: Some(size), ..opening(Access::ReadWrite) })
                .unwrap();
        assert!((size..size + (4 << 20)).contains(&pool.medium().memory().reserved()));
        match pool.grow(size) {
            Ok(()) => assert_eq!((pool.header().geometry.size(), size), (512 << 10, 512 << 10)),
            // The disk is too small for it; addresses are not.
            Err(error) => assert!(
                matches!(error.cause(), PoolError::NoSpace { size, limit: SpaceLimit::Disk } if *size == 20 << 40),
                "{error}"
            ),
        }
    }
}

/// A request that no size satisfies leaves the pool as it is.
#[test]
fn request_that_fits_nowhere_grows_nothing() {
    let folder = folder();
    let options = CreateOptions { size_max: Some(8 << 20), ..creating(SIZE) };
    let pool = PoolFile::create(&folder.path().join("pool"), &options, no_content).unwrap();
    let install = |_: &Geometry, publish: &mut Publish<'_>| publish();
    let before = pool.header();
    let error: PoolError = pool.grower().grow_for(1, |_| false, install).unwrap_err();
    assert!(matches!(error, PoolError::Maximum { size_max } if size_max == 8 << 20), "{error}");
    assert_eq!(pool.header(), before);
    pool.grower().grow_for(1, |new| new.size() >= 7 << 20, install).unwrap();
    assert_eq!(pool.header().geometry.size(), 8 << 20);
}

/// With all extents in use, a pool grows as far as the table of the last one reaches, and then says so.
#[test]
fn exhausted_extents_are_reported() {
    let folder = folder();
    let durability = Some(Durability::None);
    let options = CreateOptions { size_max: Some(16 << 30), durability, ..creating(64 << 10) };
    let pool = PoolFile::create(&folder.path().join("pool"), &options, no_content).unwrap();
    let mut full = pool.header().geometry;
    while let Ok(grown) = full.grow(full.size() + (32 << 20)) {
        full = grown;
    }
    // The file has holes where a real one has the content.
    let path = pool.path().to_owned();
    drop(pool);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(full.reach() + CHUNK).unwrap();
    let pool = PoolFile::open(&path, &OpenOptions { durability, ..opening(Access::ReadWrite) }).unwrap();
    while pool.header().geometry.size() < full.size() {
        pool.grow((pool.header().geometry.size() + (32 << 20)).min(full.size())).unwrap();
    }
    let install = |_: &Geometry, publish: &mut Publish<'_>| publish();
    let error: PoolError = loop {
        match pool.grower().grow_for(1, any, install) {
            Ok(()) => assert!(pool.header().geometry.size() <= full.reach()),
            Err(error) => break error,
        }
    };
    assert_eq!(pool.header().geometry.size(), full.reach());
    assert!(
        matches!(error, PoolError::Geometry(GeometryError::ExtentsExhausted { size_max, .. }) if size_max == full.reach()),
        "{error}"
    );
}
