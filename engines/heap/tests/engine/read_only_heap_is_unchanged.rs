//! A transaction that would change a pool opened for reading is an error, however the pool was opened: its changes
//! would be in a private view, and gone with the handle. One that only reads works.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_heap::{Access, CreateOptions, Heap, HeapError, LayoutName, LogError, OpenError, OpenOptions, Pool};
use lode_heap::{Durability, PBox, PCell, PVec, Persist, TypedPool};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::Mapping;
use std::fs;
use std::path::{Path, PathBuf};

lode_heap::brand!(Desk);

#[derive(Persist)]
#[persist(brand = Desk)]
#[repr(C)]
struct Root {
    count: PCell<u64, Desk>,
    list: PVec<u64, Desk>,
    child: PBox<u64, Desk>,
}

fn created(folder: &Path) -> PathBuf {
    let path = folder.join("pool");
    let options = CreateOptions {
        durability: Some(Durability::None),
        ..CreateOptions::new(1 << 20, LayoutName::new("mine").unwrap())
    };
    Pool::create(&path, &options).unwrap().close().unwrap();
    path
}

fn opening(access: Access) -> OpenOptions {
    OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(access) }
}

#[test]
fn words_and_objects() {
    let folder = tempfile::tempdir().unwrap();
    let path = created(folder.path());
    let pool = Pool::open(&path, &opening(Access::ReadWrite)).unwrap();
    let at = pool.heap().run(|tx| {
        let at = tx.alloc_with(&[7; 8], 8, 1)?;
        tx.set_root(at);
        Ok::<_, HeapError>(at)
    });
    let at = at.unwrap();
    // Dropped, so that opening replays the log into the view.
    drop(pool);
    let before = fs::read(&path).unwrap();
    let pool = Pool::open(&path, &opening(Access::ReadOnly)).unwrap();
    assert_eq!(pool.recovery().replayed, 1);
    let header = pool.header();
    only_reads(pool.heap(), at);
    assert!(matches!(pool.grow(2 << 20), Err(OpenError::Pool(_))));
    pool.close().unwrap();
    // And past `Pool`.
    let view = Mapping::options().private_view().open(&path).unwrap();
    let (heap, _) = Heap::open(view, &header.geometry, header.uuid.into_bytes(), [7, 7]).unwrap();
    only_reads(&heap, at);
    heap.close().unwrap();
    assert!(fs::read(&path).unwrap() == before, "the file has changed");
}

fn only_reads<M: lode_pmem::Medium>(heap: &Heap<M>, at: PoolOffset) {
    let refused = Err(HeapError::ReadOnly);
    let seen = heap.run(|tx| {
        tx.lock(at)?;
        Ok::<_, HeapError>((tx.load8(at), tx.usable_size(at)?))
    });
    assert_eq!(seen, Ok((7, 64)));
    let ran = |change: &dyn Fn(&lode_heap::Tx<'_, M>)| {
        heap.run(|tx| {
            change(tx);
            Ok::<_, HeapError>(())
        })
    };
    assert_eq!(ran(&|tx| tx.store8(at, 8)), refused);
    assert_eq!(ran(&|tx| tx.store(at.plus(1), b"bytes")), refused);
    assert_eq!(ran(&|tx| tx.zero(at, WORD)), refused);
    assert_eq!(ran(&|tx| tx.set_root(PoolOffset::NULL)), refused);
    // More than a record holds, and more than a transaction may change.
    assert_eq!(ran(&|tx| (0..200).for_each(|_| tx.store_words(at, &[1; 8]))), refused);
    assert_eq!(ran(&|tx| (0..50_000).for_each(|_| tx.store_words(at, &[1; 8]))), refused);
    assert_eq!(heap.run(|tx| tx.free(at)), refused);
    for size in [1, 64, 5000, 100_000] {
        assert_eq!(heap.run(|tx| tx.alloc(size, 8, 1)).map(drop), refused, "{size}");
        // At once, not at the end.
        let at_once = heap.run(|tx| Ok::<_, HeapError>(tx.alloc(size, 8, 1)));
        assert_eq!(at_once, Ok(Err(HeapError::ReadOnly)), "{size}");
        assert_eq!(heap.reserve(size, 8, 1).map(drop).err(), refused.clone().err(), "{size}");
    }
    assert_eq!(heap.run(|tx| tx.resize(at, 5000, 8)).map(drop), refused);
    assert_eq!(heap.log().checkpoint(), Err(LogError::ReadOnly));
    assert_eq!((heap.root(), heap.memory().reading(|memory| memory.load8(at)).unwrap()), (Ok(at), 7));
    assert_eq!(heap.objects().count(), 1);
}

#[test]
fn typed_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = created(folder.path());
    let new = || Ok(Root { count: PCell::new(3), list: PVec::new(), child: PBox::null() });
    let pool = TypedPool::<Desk>::open(&path, &opening(Access::ReadOnly)).unwrap();
    assert!(pool.root::<Root>().unwrap().is_none());
    assert_eq!(pool.root_or_init(|_| new()).map(drop), Err(HeapError::ReadOnly));
    pool.close().unwrap();
    let pool = TypedPool::<Desk>::open(&path, &opening(Access::ReadWrite)).unwrap();
    let root = pool.root_or_init(|_| new()).unwrap();
    pool.run(|tx| root.list.push(tx, 1)).unwrap();
    pool.close().unwrap();
    let pool = TypedPool::<Desk>::open(&path, &opening(Access::ReadOnly)).unwrap();
    let root = pool.root_or_init(|_| new()).unwrap();
    assert_eq!(pool.run(|tx| Ok((root.count.get(tx)?, root.list.to_vec(tx)?))), Ok((3, vec![1])));
    assert_eq!(pool.run(|tx| root.count.set(tx, 4)), Err(HeapError::ReadOnly));
    assert_eq!(pool.run(|tx| root.list.push(tx, 4)), Err(HeapError::ReadOnly));
    assert_eq!(pool.run(|tx| root.list.clear(tx)), Err(HeapError::ReadOnly));
    assert_eq!(pool.run(|tx| root.child.set(tx, tx.alloc(9)?)), Err(HeapError::ReadOnly));
    assert_eq!(root.list.load_all(&pool.guard()), Ok(vec![1]));
    assert!(matches!(pool.grow(2 << 20), Err(OpenError::Pool(_))));
}
