//! Objects of a size go where PMDK puts them.

use crate::fixture::new_pool;
use crate::judge::Judge;
use lode_obj::{Pool, Request};
use lode_pmem::Mapping;

/// Usable size, bytes of a block, and chunks of its run; of an object that has chunks for itself 0 bytes and its chunks.
fn placed(pool: &Pool<Mapping>, size: u64) -> (u64, u64, u64) {
    let reservation = pool.reserve(&Request { size, ..Request::default() }).unwrap();
    let object = pool.object(reservation.at).unwrap();
    assert_eq!(object.usable_size, reservation.usable_size);
    let (block, header) = (object.place.block, object.place.block.header);
    let unit = object
        .place
        .units
        .map_or(0, |(_, units)| (object.usable_size + header.object_header().len()) / units);
    pool.cancel(&reservation);
    assert_eq!(block.header.size, header.size);
    (reservation.usable_size, unit, header.size.into())
}

#[test]
fn sizes_have_the_classes_of_pmdk() {
    let Some(judge) = Judge::find() else { return };
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let theirs = judge.run(&folder.path().join("pool"), &["classes", "3000000"]);
    let pool = new_pool(2 << 30);
    let (mut ours, mut last, mut size) = (Vec::new(), (0, 0, 0), 1);
    while size <= 3_000_000 {
        let found = placed(&pool, size);
        if found != last {
            ours.push(format!("{size} {} {} {}", found.0, found.1, found.2));
        }
        let step = match size {
            0..5000 => 1,
            5000..300_000 => 13,
            _ => 1009,
        };
        (last, size) = (found, size + step);
    }
    assert!(ours.len() > 150);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
}
