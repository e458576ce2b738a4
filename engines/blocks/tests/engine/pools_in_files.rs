//! Pools of layout `blocks` in files: made, opened for writing and for reading, refused if they hold something else.

use crate::disk::{block, read};
use lode_blocks::{BlockPool, BlockPoolError, BlocksError};
use lode_layout::{Durability, LayoutName};
use lode_pool::{Access, CreateOptions, OpenOptions, PoolFile};

fn options() -> CreateOptions {
    let options = CreateOptions::new(1 << 20, BlockPool::layout());
    CreateOptions { durability: Some(Durability::Commit), ..options }
}

fn open_options(access: Access) -> OpenOptions {
    OpenOptions { durability: Some(Durability::Commit), ..OpenOptions::new(access) }
}

#[test]
fn flushed_writes_are_there_after_a_reopening_without_close() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    let pool = BlockPool::create(&path, &options(), 4096).unwrap();
    let blocks = pool.blocks();
    blocks.write(3, &block(blocks, 7)).unwrap();
    blocks.flush().unwrap();
    drop(pool);
    let view = BlockPool::open(&path, &open_options(Access::ReadOnly)).unwrap();
    let blocks = view.blocks();
    assert_eq!((read(blocks, 3), view.recovery().replayed), (block(blocks, 7), 1));
    assert_eq!(blocks.write(3, &block(blocks, 8)), Err(BlocksError::ReadOnly));
    assert_eq!(blocks.zero(3, 1), Err(BlocksError::ReadOnly));
    blocks.flush().unwrap();
    view.close().unwrap();
    let pool = BlockPool::open(&path, &open_options(Access::ReadWrite)).unwrap();
    assert_eq!(pool.recovery().replayed, 1, "the reader changed nothing");
    assert_eq!(read(pool.blocks(), 3), block(pool.blocks(), 7));
    pool.close().unwrap();
    let pool = BlockPool::open(&path, &open_options(Access::ReadWrite)).unwrap();
    assert!(pool.recovery().was_closed);
}

#[test]
fn pool_of_another_layout_is_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    let other = CreateOptions { layout: LayoutName::new("kv").unwrap(), ..options() };
    let file = PoolFile::create(&path, &other, |_, _| Ok::<(), lode_pool::PoolError>(())).unwrap();
    file.close().unwrap();
    let error = BlockPool::open(&path, &open_options(Access::ReadWrite)).unwrap_err();
    assert!(matches!(error, BlockPoolError::Layout { .. }), "{error}");
    assert!(error.to_string().contains("is kv, not blocks"), "{error}");
}
