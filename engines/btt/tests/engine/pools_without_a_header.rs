//! The content of a block pool of PMDK whose headers another layer has, as those of a pool set.

use crate::disk::{block, read};
use lode_btt::{Btt, BttError, PoolUuids, check_pool, format_content};
use lode_testing::memory;
use std::sync::Arc;
use uuid::Uuid;

const UUIDS: PoolUuids = PoolUuids { poolset: Uuid::from_u128(1), part: Uuid::from_u128(2) };

#[test]
fn headers_are_left_to_their_layer() {
    let medium = Arc::new(memory::persistent(20 << 20));
    format_content(&medium, 512, true).unwrap();
    let btt = Btt::open_pool(Arc::clone(&medium), UUIDS).unwrap();
    let last = btt.block_count() - 1;
    assert_eq!((btt.block_size(), read(&btt, last)), (512, [0; 512].to_vec()));
    // The first write makes the table, and opens it.
    btt.write(last, &block(&btt, 6)).unwrap();
    assert_eq!(read(&btt, last), block(&btt, 6));
    drop(btt);
    let btt = Btt::open_pool(Arc::clone(&medium), UUIDS).unwrap();
    assert_eq!(read(&btt, last), block(&btt, 6));
    drop(btt);
    assert_eq!(check_pool(&medium, UUIDS), []);
    assert!(memory::bytes(&medium)[..4096].iter().all(|byte| *byte == 0));
    assert!(matches!(Btt::open(medium), Err(BttError::Absent)));
}

/// A table that a pool before has left there is none of this pool.
#[test]
fn table_of_another_pool_is_none() {
    let medium = Arc::new(memory::persistent(20 << 20));
    format_content(&medium, 512, false).unwrap();
    let btt = Btt::open_pool(Arc::clone(&medium), UUIDS).unwrap();
    btt.write(7, &block(&btt, 6)).unwrap();
    drop(btt);
    let other = PoolUuids { poolset: Uuid::from_u128(3), ..UUIDS };
    let btt = Btt::open_pool(medium, other).unwrap();
    assert_eq!(read(&btt, 7), [0; 512]);
    btt.write(8, &block(&btt, 9)).unwrap();
    assert_eq!((read(&btt, 7), read(&btt, 8)), ([0; 512].to_vec(), block(&btt, 9)));
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let medium = memory::persistent(20 << 20);
    let error = format_content(&medium, 1 << 30, true).unwrap_err();
    assert!(matches!(error, BttError::Info { .. }), "{error}");
    assert!(memory::bytes(&medium).iter().all(|byte| *byte == 0));
}
