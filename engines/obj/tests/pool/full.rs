//! Pools that are full: the log has given its chunks up.

use super::{new_pool, object, open, read};
use lode_layout::{PmdkHeap, PoolOffset};
use lode_obj::{ObjError, Pool, Request, check, recover};
use lode_pmem::{Mapping, Medium};
use std::sync::Arc;
use uuid::Uuid;

/// Large enough for a log in chunks.
const SIZE: u64 = 112 << 20;
/// An object that has a chunk for itself.
const OF_CHUNK: u64 = PmdkHeap::CHUNK - 16;

/// Returns the number of chunks of a pool.
fn chunk_count() -> usize {
    PmdkHeap::chunk_count(SIZE - 0x30_2000, 0) as usize
}

/// Returns true if the log lies in the place of the lanes.
fn has_moved(medium: &Mapping) -> bool {
    let uuid = Uuid::from_u128(7).into_bytes();
    let slot = medium.memory().reading(|memory| lode_redo::slots::read(memory, &uuid)).unwrap();
    slot.unwrap().in_second_area
}

/// Allocates objects until there is no space.
fn fill(pool: &Pool<Arc<Mapping>>) -> Vec<PoolOffset> {
    let mut objects = Vec::new();
    loop {
        let mut tx = pool.begin().unwrap();
        match pool.allocate(&mut tx, &Request { size: OF_CHUNK, ..Request::default() }) {
            Ok(reservation) => objects.push(reservation.at),
            Err(error) => {
                assert!(matches!(error, ObjError::Full { .. }), "{error}");
                pool.abort(tx).unwrap();
                return objects;
            }
        }
        pool.commit(tx).unwrap();
    }
}

/// A transaction is open meanwhile, which the log that moves must know of.
#[test]
fn full_pools_have_objects_in_all_chunks() {
    let medium = new_pool(SIZE);
    let pool = open(&medium);
    let first = object(&pool, OF_CHUNK);
    let mut sleeping = pool.begin().unwrap();
    pool.add_range(&mut sleeping, first, 8).unwrap();
    medium.store8(first, 1);
    let too_large = pool.reserve(&Request { size: SIZE, ..Request::default() });
    assert!(matches!(too_large, Err(ObjError::Full { .. })) && !has_moved(&medium), "{too_large:?}");
    let objects = fill(&pool);
    assert!(has_moved(&medium));
    assert_eq!(1 + objects.len(), chunk_count());
    // What lies where the log was is a program's as any other.
    for at in &objects {
        let mut tx = pool.begin().unwrap();
        pool.add_range(&mut tx, *at, 8).unwrap();
        medium.store8(*at, at.get());
        pool.commit(tx).unwrap();
        medium.store8(at.plus(4096), 2);
        pool.persist(at.plus(4096), 8).unwrap();
    }
    std::mem::forget(sleeping);
    drop(pool);
    let of_object = |at: PoolOffset| [read(&medium, at, 8), read(&medium, at.plus(4096), 8)].concat();
    let pool = open(&medium);
    assert_eq!(read(&medium, first, 8), [0; 8]);
    for at in &objects {
        assert_eq!(of_object(*at), [at.get().to_le_bytes(), 2u64.to_le_bytes()].concat());
    }
    assert_eq!(fill(&pool), []);
    drop(pool);
    assert!(recover(&*medium).unwrap().was_in_use);
    assert_eq!(check(&medium), []);
    // The next open has a log elsewhere again if there is space for it.
    let pool = open(&medium);
    for at in &objects {
        let mut tx = pool.begin().unwrap();
        pool.free(&mut tx, *at).unwrap();
        pool.commit(tx).unwrap();
    }
    pool.close().unwrap();
    let pool = open(&medium);
    assert_eq!(fill(&pool).len(), objects.len());
    pool.close().unwrap();
    assert_eq!(check(&medium), []);
}

/// Each of many open transactions has a share of the log, and needs little of it.
#[test]
fn many_small_transactions_do_not_keep_the_log_where_it_is() {
    let medium = new_pool(SIZE);
    let pool = open(&medium);
    let at = object(&pool, 1 << 20);
    let mut open_ones: Vec<_> = (0..500).map(|_| pool.begin().unwrap()).collect();
    for (index, tx) in open_ones.iter_mut().enumerate() {
        pool.add_range(tx, at.plus(1024 * index as u64), 8).unwrap();
        medium.store8(at.plus(1024 * index as u64), 1);
    }
    fill(&pool);
    assert!(has_moved(&medium));
    drop(pool);
    assert!(recover(&*medium).unwrap().was_in_use);
    assert!(read(&medium, at, 1 << 20).iter().all(|byte| *byte == 0));
    assert_eq!(check(&medium), []);
}

/// The other place of the log is too short for what is open: the chunks are given up later.
#[test]
fn log_keeps_its_chunks_while_a_transaction_needs_them() {
    let medium = new_pool(SIZE);
    let pool = open(&medium);
    let at = object(&pool, 8 << 20);
    let mut large = pool.begin().unwrap();
    for index in 0..4000 {
        pool.add_range(&mut large, at.plus(index * 512), 8).unwrap();
        medium.store8(at.plus(index * 512), 1);
    }
    let objects = fill(&pool);
    assert!(objects.len() < chunk_count() - 32 && !has_moved(&medium), "{}", objects.len());
    pool.abort(large).unwrap();
    assert!(read(&medium, at, 2 << 20).iter().all(|byte| *byte == 0));
    assert!(fill(&pool).len() >= 24);
    pool.close().unwrap();
    assert_eq!(check(&medium), []);
}
