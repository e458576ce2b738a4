//! A store begins small, grows with what it holds, and does not grow by overwrites.

use crate::place::Place;
use lode_testing::scaled;
use lodestone::{Result, TreeDef};
use std::fs;

const TREE: TreeDef<'_, u32, Vec<u8>> = TreeDef::new("t");

#[test]
fn overwrites_leave_size_alone() -> Result<()> {
    const KEYS: u32 = 100;
    let place = Place::new();
    let store = place.open();
    assert!(fs::metadata(place.path()).unwrap().len() <= 256 << 10, "an empty store is small");
    let put = |round: u64, key: u32| store.put(TREE, key, vec![round as u8; 20 + key as usize % 40]);
    for round in 0..20 {
        (0..KEYS).try_for_each(|key| put(round, key).map(drop))?;
    }
    let size = store.size();
    assert!(size <= 512 << 10, "{size}");
    for round in 0..scaled(200) {
        (0..KEYS).try_for_each(|key| put(round, key).map(drop))?;
    }
    assert_eq!(store.size(), size);
    store.close()?;
    place.check(u64::from(KEYS));
    Ok(())
}

/// Its log grows with it.
#[test]
fn small_store_grows() -> Result<()> {
    let place = Place::new();
    let store = place.open();
    for first in (0..40_000).step_by(1000) {
        store.write(|tx| {
            let tree = tx.tree(TREE)?;
            (first..first + 1000).try_for_each(|key| tree.put(key, vec![7; 100]).map(drop))
        })?;
    }
    let (size, len) = (store.size(), fs::metadata(place.path()).unwrap().len());
    assert!(size == len && (6 << 20..16 << 20).contains(&size), "{size}, {len}");
    store.close()?;
    let pool =
        lode_heap::Pool::open(&place.path(), &lode_pool::OpenOptions::new(lode_pool::Access::ReadOnly));
    let log_len = pool.unwrap().header().geometry.log_len();
    assert!(log_len >= size / 32, "{log_len} of {size}");
    place.check(40_000);
    Ok(())
}
