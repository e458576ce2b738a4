//! Closures and helper functions of typed pools name no type that the compiler or a default knows.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::pool::Pool;
use lode_heap::{CreateOptions, Durability, Guard, HeapError, LayoutName};
use lode_heap::{PCell, PDeque, PMutex, Persist, TypedHeap, TypedPool, TypedTx};

lode_heap::brand!(Shop);

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Root {
    jobs: PDeque<u64, Shop>,
    count: PMutex<PCell<u64, Shop>, Shop>,
}

fn root() -> Root {
    Root { jobs: PDeque::new(), count: PMutex::new(PCell::new(0)) }
}

/// The transaction of a [`TypedPool`], of which a helper names the brand alone.
fn push(tx: &TypedTx<'_, Shop>, root: &Root, job: u64) -> Result<u64, HeapError> {
    root.jobs.push_back(tx, job)?;
    let count = root.count.lock(tx)?;
    count.set(tx, count.get(tx)? + 1)?;
    count.get(tx)
}

#[test]
fn errors_of_closures_are_inferred() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Shop>();
    let shop = heap.root_or_init(|_| Ok(root())).unwrap();
    let taken = || -> Result<Option<u64>, Box<dyn std::error::Error>> {
        heap.run(|tx| {
            push(tx, shop, 7)?;
            push(tx, shop, 8)?;
            Ok(())
        })?;
        Ok(heap.run(|tx| {
            let Some(job) = shop.jobs.pop_front(tx)? else { return Ok(None) };
            Ok(Some(job))
        })?)
    };
    assert_eq!(taken().unwrap(), Some(7));
    let guard = heap.guard();
    let count = shop.count.read(&guard, |count| {
        let count = count.load(&guard)?;
        Ok(count)
    });
    assert_eq!((count, shop.jobs.load_all(&guard)), (Ok(2), Ok(vec![8])));
}

/// The types that a program declares have the same defaults: a pool in a file, its transactions and its guards.
#[test]
fn defaults_of_types_fit_each_other() {
    fn push_all(pool: &TypedPool<Shop>, jobs: &[u64]) -> Result<u64, HeapError> {
        push_in(pool, jobs)
    }
    fn push_in(heap: &TypedHeap<Shop>, jobs: &[u64]) -> Result<u64, HeapError> {
        let root = heap.root::<Root>()?.expect("made before");
        heap.run(|tx| jobs.iter().try_fold(0, |_, job| push(tx, root, *job)))
    }
    fn waiting(guard: &Guard<'_, Shop>, root: &Root) -> Result<Vec<u64>, HeapError> {
        root.jobs.load_all(guard)
    }
    let folder = tempfile::tempdir().unwrap();
    let options = CreateOptions {
        durability: Some(Durability::None),
        ..CreateOptions::new(1 << 20, LayoutName::new("shop").unwrap())
    };
    let pool = TypedPool::create(&folder.path().join("pool"), &options).unwrap();
    let shop = pool.root_or_init(|_| Ok(root())).unwrap();
    assert_eq!(push_all(&pool, &[3, 4, 5]), Ok(3));
    assert_eq!(waiting(&pool.guard(), shop), Ok(vec![3, 4, 5]));
}
