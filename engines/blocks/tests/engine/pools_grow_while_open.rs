//! A pool grows while its blocks are used: they keep their content, and the new ones are zeros. A failed growth leaves the old
//! size.

use crate::disk::{block, read};
use lode_blocks::{BlockPool, BlockPoolError};
use lode_layout::{Durability, GeometryError};
use lode_pool::{Access, CreateOptions, OpenOptions, PoolError};
use lode_testing::SmallDisk;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const FIRST: u64 = 256 << 10;

fn create(path: &Path, block_size: u32) {
    let options = CreateOptions {
        durability: Some(Durability::Line),
        ..CreateOptions::new(FIRST, BlockPool::layout())
    };
    BlockPool::create(path, &options, block_size).unwrap().close().unwrap();
}

fn open(path: &Path, grow_to: u64) -> BlockPool {
    let options = OpenOptions {
        durability: Some(Durability::Line),
        grow_to: Some(grow_to),
        ..OpenOptions::new(Access::ReadWrite)
    };
    BlockPool::open(path, &options).unwrap()
}

#[test]
fn blocks_of_a_grown_pool_are_read_as_written() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    create(&path, 512);
    // The pool gets its second extent at the third size. The last size is the same again.
    for size in [300 << 10, 2 << 20, 40 << 20, 41 << 20, 41 << 20] {
        let pool = open(&path, size);
        let blocks = pool.blocks();
        let before = blocks.block_count();
        for lba in 0..before {
            blocks.write(lba, &block(blocks, lba + 1)).unwrap();
        }
        let count = pool.grow(size).unwrap();
        assert!(count > before || size == 41 << 20, "{before} blocks, {count} in {size} bytes");
        assert!((before..count).all(|lba| blocks.is_zero(lba).unwrap()), "{size}");
        for lba in (before..count).rev() {
            blocks.write(lba, &block(blocks, lba + 1)).unwrap();
        }
        assert!((0..count).all(|lba| read(blocks, lba) == block(blocks, lba + 1)), "{size}");
        // As after a crash.
        drop(pool);
        let pool = open(&path, size);
        let blocks = pool.blocks();
        assert_eq!(blocks.block_count(), count);
        assert!((0..count).all(|lba| read(blocks, lba) == block(blocks, lba + 1)), "{size}");
        assert!(count * 512 > size * 8 / 10 || size < 1 << 20, "{count} blocks of 512 in {size} bytes");
        let header = pool.file().header();
        pool.close().unwrap();
        let medium = lode_pool::map_unchecked(&path, &OpenOptions::new(Access::ReadOnly)).unwrap();
        assert_eq!(lode_blocks::check(&*medium, &header.geometry, header.uuid.as_bytes()), []);
    }
}

#[test]
fn threads_write_while_the_pool_grows() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    create(&path, 512);
    let pool = open(&path, 4 << 20);
    let (blocks, is_done) = (pool.blocks(), AtomicBool::new(false));
    thread::scope(|threads| {
        for thread in 0..2 {
            let is_done = &is_done;
            threads.spawn(move || {
                let mut round = 0;
                while !is_done.load(Ordering::Relaxed) || round < 100 {
                    // The last block is one of the newest segment.
                    for lba in [thread, blocks.block_count() - 1 - thread] {
                        let content = block(blocks, 2 * round + thread);
                        blocks.write(lba, &content).unwrap();
                        let read = read(blocks, lba);
                        assert!(read == content || lba > 1, "no other thread writes block {lba}");
                    }
                    round += 1;
                }
            });
        }
        for size in (1..16).map(|step| FIRST + step * (240 << 10)) {
            pool.grow(size).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let count = blocks.block_count();
    pool.close().unwrap();
    assert_eq!(open(&path, 4 << 20).blocks().block_count(), count);
}

#[test]
fn refused_growth_leaves_the_old_size() {
    let Some(disk) = SmallDisk::mount("small_disk", 1 << 20) else { return };
    create(&disk.pool(), 512);
    let pool = open(&disk.pool(), 8 << 20);
    let count = pool.blocks().block_count();
    let refused = |size| match pool.grow(size).unwrap_err() {
        BlockPoolError::Pool(PoolError::At { error, .. }) => *error,
        error => panic!("{error}"),
    };
    let full = refused(4 << 20);
    assert!(matches!(full, PoolError::NoSpace { .. }), "{full}");
    let smaller = refused(128 << 10);
    assert!(matches!(smaller, PoolError::Geometry(GeometryError::Shrinks { .. })), "{smaller}");
    let reserved = refused(64 << 20);
    assert!(matches!(reserved, PoolError::AddressSpace { .. }), "{reserved}");
    assert_eq!(pool.blocks().block_count(), count);
    pool.blocks().write(count - 1, &block(pool.blocks(), 7)).unwrap();
    pool.grow(512 << 10).unwrap();
    assert!(pool.blocks().block_count() > count);
    drop(pool);
    let pool = open(&disk.pool(), 8 << 20);
    assert_eq!(read(pool.blocks(), count - 1), block(pool.blocks(), 7));
}
