//! Pools of libpmemobj that a crash of Lodestone left: any header, slots, log, words, spills and heap get a result.

#[path = "../../../engines/obj/tests/pool_crash/small_pool.rs"]
mod small_pool;

use lode_layout::{Geometry, ObjWords, PmdkHeap, PmdkObj, PoolOffset};
use lode_obj::{ObjError, Pool, Request, check, recover};
use lode_pmem::Medium;
use lode_testing::memory;
use std::sync::OnceLock;

/// Bytes of a change: the place, an offset from it in words, and the new word.
const CHANGE: usize = 12;
const ZONE: u64 = small_pool::HEAP + PmdkHeap::LEN as u64;
/// The first chunk has small objects, the second one the spill of a transaction that was open.
const CHUNKS: u64 = ZONE + PmdkHeap::ZONE_HEADERS;

/// Places from which changes are counted.
const PLACES: [u64; 10] = [
    0,
    PmdkObj::OFF,
    Geometry::SLOT_0.get(),
    Geometry::SLOT_1.get(),
    Geometry::LOG.get(),
    small_pool::HEAP - ObjWords::LEN,
    ZONE,
    CHUNKS,
    CHUNKS + PmdkHeap::CHUNK,
    CHUNKS + 2 * PmdkHeap::CHUNK,
];

/// Returns a pool that a program used, and left in a transaction that is larger than its share of the log.
fn left_by_a_crash() -> Result<Vec<u8>, ObjError> {
    let medium = memory::persistent(small_pool::SIZE);
    small_pool::store(&medium, false);
    let pool = Pool::open(&medium)?;
    let root = pool.root_of::<ObjError>(5000, |_| Ok(()))?;
    let mut tx = pool.begin()?;
    for size in [10, 100, 1000] {
        let at = pool.allocate(&mut tx, &Request { size, ..Request::default() })?.at;
        medium.store8(at, size);
    }
    pool.commit(tx)?;
    let mut tx = pool.begin()?;
    pool.add_range(&mut tx, root, 5000)?;
    medium.store(root, &[7; 5000]);
    std::mem::forget(tx);
    Ok(memory::bytes(&medium))
}

/// Changes words of the pool, opens it, uses it, and recovers it.
pub fn run(data: &[u8]) {
    static LEFT: OnceLock<Vec<u8>> = OnceLock::new();
    let mut bytes = LEFT.get_or_init(|| left_by_a_crash().expect("the pool is sound")).clone();
    let (changes, _) = data.as_chunks::<CHANGE>();
    for [place, a, b, c, word @ ..] in changes {
        let at =
            PLACES[usize::from(*place) % PLACES.len()] + 8 * u64::from(u32::from_le_bytes([*a, *b, *c, 0]));
        if let Some(found) = bytes.get_mut(at as usize..at as usize + 8) {
            found.copy_from_slice(word);
        }
    }
    let medium = memory::from_bytes(&bytes);
    if let Ok(pool) = Pool::open(&medium) {
        // Each call may refuse what it finds.
        let _ = use_pool(&pool);
        let _ = pool.close();
    }
    let medium = memory::from_bytes(&bytes);
    if recover(&medium).is_ok() {
        let _ = check(&medium);
        let again = recover(&medium).expect("a recovered pool is recovered");
        assert!(!again.was_in_use);
    }
}

/// Reads all objects, frees some, and allocates others.
fn use_pool<M: Medium>(pool: &Pool<M>) -> Result<(), ObjError> {
    let mut objects: Vec<PoolOffset> = Vec::new();
    while let Some(next) = pool.object_after(objects.last().copied())? {
        objects.push(next);
        assert!(objects.len() < 4 << 20);
    }
    let mut tx = pool.begin()?;
    for at in &objects {
        let _ = pool.free(&mut tx, *at);
    }
    let _ = pool.commit(tx);
    let mut tx = pool.begin()?;
    for size in [1, 100, 3000, 300_000] {
        let request = Request { size, is_zeroed: true, ..Request::default() };
        if let Ok(reservation) = pool.allocate(&mut tx, &request) {
            pool.add_range(&mut tx, reservation.at, size)?;
        }
    }
    pool.commit(tx)
}

/// Returns changes of words of each place.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let change = |place: u8, word: u8, value: u64| [&[place, word, 0, 0][..], &value.to_le_bytes()].concat();
    vec![
        ("crashed", Vec::new()),
        ("mark", change(0, 2, 6)),
        ("lanes", change(1, 0x80, 0x3000)),
        ("slot", change(2, 1, 7)),
        ("record", change(4, 3, 1 << 40)),
        ("words", change(5, 3, 0x1_0000)),
        ("spill", change(5, 5, 0x9_5000)),
        ("chunk", change(6, 9, 4 | 9 << 16 | 7 << 32)),
        ("bitmap", change(7, 2, u64::MAX)),
        ("header", change(8, 2, 9)),
    ]
}
