//! Open pools that become longer.

use lode_layout::{PmdkHeader, PmdkHeap, PmdkKind, PmdkObjState, PoolOffset};
use lode_obj::{Action, Growth, GrowthRefusal, ObjError, ObjView, Pool, Request, check};
use lode_pmem::{Durability, Mapping, Medium};
use lode_testing::memory;
use std::sync::Arc;
use uuid::Uuid;

const MIB: u64 = 1 << 20;

/// Memory that becomes longer as far as it has addresses.
#[derive(Debug)]
struct Growing(Arc<Mapping>);

impl lode_pmem::Layer for Growing {
    type Inner = Mapping;

    fn inner(&self) -> &Mapping {
        &self.0
    }
}

impl Growth for Growing {
    fn grow(&self, len: u64) -> Result<(), GrowthRefusal> {
        let refused = GrowthRefusal::Reserved { left: 0, least: 1 };
        self.0.grow(self.0.memory().len() + len).map_err(|_| refused)
    }
}

fn format(medium: &Mapping) {
    let header = PmdkHeader::new(PmdkKind::Objects, Uuid::from_u128(7), Uuid::from_u128(8), 9);
    medium.store(PoolOffset::NULL, &header.encode());
    Pool::format(medium, b"test").unwrap();
}

fn open(mapping: &Arc<Mapping>) -> Pool<Growing> {
    let mut pool = Pool::open(Growing(Arc::clone(mapping))).unwrap();
    pool.let_grow();
    pool
}

/// Allocates objects until one is refused, and returns their places. Their content is not persisted: most of it was never stored.
fn fill(pool: &Pool<Growing>, size: u64) -> (Vec<PoolOffset>, ObjError) {
    let mut all = Vec::new();
    loop {
        match pool.reserve(&Request { size, ..Request::default() }) {
            Ok(new) => {
                pool.publish(&[Action::Allocate(new)]).unwrap();
                all.push(new.at);
            }
            Err(error) => return (all, error),
        }
    }
}

#[test]
fn full_pools_grow_as_far_as_they_can() {
    let mapping = Mapping::options().durability(Durability::Line).reserve(40 * MIB).map_anonymous(8 * MIB);
    let mapping = Arc::new(mapping.unwrap());
    format(&mapping);
    let pool = open(&mapping);
    assert_eq!(pool.growth_step(), 128 * MIB);
    for (step, want) in [(0, GrowthRefusal::Off), (128 * MIB, GrowthRefusal::Reserved { left: 0, least: 1 })]
    {
        pool.set_growth_step(step);
        let (_, error) = fill(&pool, 100_000);
        assert!(matches!(error, ObjError::Full { growth: Some(found), .. } if found == want), "{error}");
    }
    assert_eq!(pool.extend(64 * MIB), Err(ObjError::NotGrown(GrowthRefusal::Reserved { left: 0, least: 1 })));
    pool.extend(2 * MIB).unwrap();
    pool.set_growth_step(3 * MIB);
    // An object that needs several parts, a transaction over it, and what is left for small ones.
    let mut tx = pool.begin().unwrap();
    let large = pool.allocate(&mut tx, &Request { size: 10 * MIB, ..Request::default() }).unwrap();
    pool.commit(tx).unwrap();
    let mut tx = pool.begin().unwrap();
    pool.add_range(&mut tx, large.at.plus(9 * MIB), 5000).unwrap();
    pool.medium().store(large.at.plus(9 * MIB), &[7; 5000]);
    pool.persist(large.at, 64).unwrap();
    pool.commit(tx).unwrap();
    let (all, _) = fill(&pool, 3000);
    let end = pool.medium().memory().len();
    assert!(end > 37 * MIB && pool.heap_end() == end && all.iter().any(|at| at.get() > end - 2 * MIB));
    // A crash, and a recovery by other memory of that length.
    let left = memory::from_bytes(&memory::bytes(&mapping));
    lode_obj::recover(&left).unwrap();
    assert_eq!(check(&left), []);
    let view = ObjView::open(&left).unwrap();
    assert_eq!(view.heap_end(), end);
    assert!(view.objects().all(|object| object.is_ok()));
    assert_eq!(memory::bytes(&left)[(large.at.get() + 9 * MIB) as usize..][..5000], [7; 5000]);
}

/// The last zone gets the chunks that it lacks, and the next one comes into use.
#[test]
fn heaps_grow_into_the_next_zone() {
    const CHUNKS: u64 = 9;
    let (_file, mapping) = memory::file((16 << 30) + 24 * MIB);
    let mapping = Arc::new(mapping);
    format(&mapping);
    let missing = CHUNKS * PmdkHeap::CHUNK + PmdkHeap::LEN as u64;
    mapping.store8(PmdkObjState::HEAP_SIZE_OFF, PmdkHeap::ZONE_MAX - missing);
    let pool = open(&mapping);
    // The memory has the bytes already.
    pool.set_growth_step(0);
    let (first, _) = fill(&pool, (3 << 30) + 5 * MIB);
    let (rest, error) = fill(&pool, MIB);
    assert!(matches!(error, ObjError::Full { .. }), "{error}");
    assert_eq!(pool.heap_end(), (16 << 30) + 24 * MIB);
    let zone = ObjView::open(&*mapping).unwrap().descriptor().heap + PmdkHeap::ZONE_MAX;
    assert!(
        first.len() == 5 && rest.iter().any(|at| at.get() > zone) && rest.iter().any(|at| at.get() < zone)
    );
    pool.close().unwrap();
    assert_eq!(check(&*mapping), []);
}

/// A crash after the size of the heap, and before the headers of its new chunks: the next open makes them.
#[test]
fn growth_that_stopped_after_the_size_is_completed() {
    let before = Arc::new(Mapping::options().durability(Durability::Line).map_anonymous(8 * MIB).unwrap());
    format(&before);
    let pool = open(&before);
    // The zone comes into use.
    let first = pool.reserve(&Request { size: 100, ..Request::default() }).unwrap();
    pool.publish(&[Action::Allocate(first)]).unwrap();
    let mut bytes = memory::bytes(&before);
    drop(pool);
    bytes.resize(12 << 20, 0);
    let left = Arc::new(memory::from_bytes(&bytes));
    let heap = ObjView::open(&*left).unwrap().descriptor().heap;
    left.store8(PmdkObjState::HEAP_SIZE_OFF, 12 * MIB - heap);
    let pool = open(&left);
    let (all, _) = fill(&pool, 100_000);
    assert!(all.iter().any(|at| at.get() > 11 * MIB));
    pool.close().unwrap();
    assert_eq!(check(&*left), []);
}
