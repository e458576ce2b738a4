//! Tests that after a failed sync the medium refuses every further sync with the same error.

use lode_layout::PoolOffset;
use lode_pmem::{Durability, Mapping, Medium, SyncError};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::File;

#[test]
fn failed_sync_is_permanent() {
    let file = File::from(memfd_create("lode", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap());
    file.set_len(8192).unwrap();
    let mapping = Mapping::options()
        .durability(Durability::Commit)
        .map_file(file.try_clone().unwrap(), "pool")
        .unwrap();
    mapping.log_write(PoolOffset::NULL, &[1; 4096]).unwrap();
    mapping.drain().unwrap();
    // From now on the kernel refuses writes, but not stores through the mapping.
    fcntl_add_seals(&file, SealFlags::FUTURE_WRITE).unwrap();
    let refused = Err(SyncError { errno: rustix::io::Errno::PERM.raw_os_error() });
    assert_eq!(mapping.log_write(PoolOffset::new(4096), &[2; 4096]), refused);
    assert_eq!(mapping.drain(), refused);
    assert_eq!(mapping.log_write(PoolOffset::NULL, &[3; 4096]), refused);
    assert_eq!(
        mapping.memory().reading(|memory| memory.load8(PoolOffset::NULL)).unwrap(),
        0x0101_0101_0101_0101
    );
}
