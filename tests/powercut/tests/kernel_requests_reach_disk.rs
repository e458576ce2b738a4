//! Requests of `lode-pmem` to the kernel arrive at the disk, and no other event makes bytes durable.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod trials;

use lode_layout::PoolOffset;
use lode_pmem::{Durability, Mapping, Medium};
use lode_powercut::{Disk, Requests, Survival, Volume};
use std::path::Path;

const SIZE: usize = 64 << 10;
const NEVER: u64 = u64::MAX;

#[test]
fn log_writes_and_drains_sync_stores_do_not() {
    let disk = Disk::new(vec![0; SIZE], NEVER);
    let volume = match Volume::mount(disk, Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        Ok(volume) => volume,
        Err(error) => return trials::skip("log_writes_and_drains_sync_stores_do_not", &error),
    };
    let medium = Mapping::options().open(volume.path()).unwrap();
    assert_eq!(medium.durability(), Durability::Commit);
    let (log, target) = (PoolOffset::new(0x1000), PoolOffset::new(0x8000));
    let durable = |at: PoolOffset| volume.disk().image(Survival::Old)[at.get() as usize];

    medium.store8(target, 7);
    assert_eq!(volume.disk().requests(), Requests::default(), "a store stays in the page cache");

    medium.log_write(log, &[9; 4096]).unwrap();
    assert_eq!(volume.disk().requests(), Requests { writes: 1, persists: 1 });
    assert_eq!((durable(log), durable(target)), (9, 0), "a log write does not write pages of the heap");

    medium.drain().unwrap();
    assert_eq!(volume.disk().requests(), Requests { writes: 2, persists: 2 });
    assert_eq!((durable(log), durable(target)), (9, 7));
}
