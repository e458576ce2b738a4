//! The kernel reads ahead in no file that is larger than the memory that may hold it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_pmem::{Durability, Mapping};
use std::fs::{self, File};
use std::path::Path;

/// Returns true if the kernel has noted random reads for all mappings of the file: flag `rr` of smaps, proc(5).
fn has_random_reads(path: &Path) -> bool {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = smaps.lines();
    let mut found = Vec::new();
    while lines.any(|line| line.ends_with(path.to_str().unwrap())) {
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
        found.push(flags.split_whitespace().any(|flag| flag == "rr"));
    }
    assert!(!found.is_empty(), "the file is mapped");
    found.into_iter().all(|random| random)
}

#[test]
fn read_ahead_is_off_past_memory() {
    let memory = rustix::system::sysinfo();
    let memory = memory.totalram as u64 * u64::from(memory.mem_unit);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let map = || Mapping::options().durability(Durability::Commit).open(&path).unwrap();
    let mapping = map();
    assert!(!has_random_reads(&path));
    drop(mapping);
    // It takes no space.
    File::options().write(true).open(&path).unwrap().set_len(2 * memory).unwrap();
    let _mapping = map();
    assert!(has_random_reads(&path));
}
