//! Pools of layout `log` in files: made, opened for writing and for reading, refused if they hold something else.

use crate::disk::all;
use lode_layout::{Durability, LayoutName};
use lode_log::{AppendLogError, LogPool, LogPoolError};
use lode_pool::{Access, CreateOptions, OpenOptions, PoolFile};

fn options() -> CreateOptions {
    let options = CreateOptions::new(1 << 20, LogPool::layout());
    CreateOptions { durability: Some(Durability::Commit), ..options }
}

fn open_options(access: Access) -> OpenOptions {
    OpenOptions { durability: Some(Durability::Commit), ..OpenOptions::new(access) }
}

#[test]
fn persisted_appends_are_there_after_a_reopening_without_close() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    let pool = LogPool::create(&path, &options()).unwrap();
    pool.log().append(b"one").unwrap();
    pool.log().persist().unwrap();
    drop(pool);
    let view = LogPool::open(&path, &open_options(Access::ReadOnly)).unwrap();
    assert_eq!(all(view.log()), [Ok(b"one".to_vec())]);
    assert_eq!(view.recovery().found, 64);
    assert_eq!(view.log().append(b"two"), Err(AppendLogError::ReadOnly));
    assert_eq!(view.log().rewind(), Err(AppendLogError::ReadOnly));
    view.close().unwrap();
    let pool = LogPool::open(&path, &open_options(Access::ReadWrite)).unwrap();
    assert_eq!(pool.recovery().found, 64, "the reader changed nothing");
    pool.log().append(b"two").unwrap();
    pool.close().unwrap();
    let pool = LogPool::open(&path, &open_options(Access::ReadWrite)).unwrap();
    assert!(pool.recovery().was_closed && pool.recovery().found == 0);
    assert_eq!(all(pool.log()), [Ok(b"one".to_vec()), Ok(b"two".to_vec())]);
}

#[test]
fn pool_of_another_layout_is_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    let other = CreateOptions { layout: LayoutName::new("kv").unwrap(), ..options() };
    let file = PoolFile::create(&path, &other, |_, _| Ok::<(), lode_pool::PoolError>(())).unwrap();
    file.close().unwrap();
    let error = LogPool::open(&path, &open_options(Access::ReadWrite)).unwrap_err();
    assert!(matches!(error, LogPoolError::Layout { .. }), "{error}");
}
