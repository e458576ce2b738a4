//! Pools of PMDK in files and sets, with PMDK as the judge: its programs use ours, and we theirs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod contests;
mod feature_changes;
mod growth;
mod interruptions;
mod judge;
mod power_cut;
mod refusals;
mod replicas;
mod set_changes;
mod sets;
mod shutdowns;

use lode_layout::{PmdkBlk, PmdkKind, PmdkLog, PoolOffset};
use lode_pmdk::{CreateOptions, OpenOptions, PmdkAccess, PmdkError, PmdkPool};
use lode_pmem::{FaultScope, Medium};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Returns a folder on a disk.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Returns a folder in memory if there is room, for tests of many creations that need no disk.
pub(crate) fn quick_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let has_room = rustix::fs::statvfs(memory).is_ok_and(|found| found.f_bavail * found.f_frsize > 256 << 20);
    if has_room { tempfile::tempdir_in(memory).unwrap() } else { folder() }
}

/// Writes a set file `set` in the folder. Paths in the lines begin with `@` for the folder.
pub(crate) fn write_set(folder: &Path, lines: &str) -> PathBuf {
    let path = folder.join("set");
    let lines = lines.replace('@', folder.to_str().unwrap());
    fs::write(&path, format!("PMEMPOOLSET\n{lines}")).unwrap();
    path
}

pub(crate) fn options(kind: PmdkKind) -> OpenOptions {
    OpenOptions::new(kind, PmdkAccess::ReadWrite)
}

pub(crate) fn open(kind: PmdkKind, path: &Path) -> PmdkPool {
    unlocked(|| PmdkPool::open(path, &options(kind))).unwrap()
}

/// Calls `call` until the parts are free: a process that another test starts has locks that were left to a mapping until its program
/// runs.
pub(crate) fn unlocked<T>(call: impl Fn() -> Result<T, PmdkError>) -> Result<T, PmdkError> {
    loop {
        match call() {
            Err(PmdkError::InUse { .. }) => std::thread::yield_now(),
            answer => return answer,
        }
    }
}

/// Writes the descriptor of an empty log, or of blocks of 512 bytes; some bytes for objects.
pub(crate) fn content<M: Medium>(kind: PmdkKind, medium: &M, is_zeroed: bool) -> Result<(), PmdkError> {
    let bytes = match kind {
        PmdkKind::Log => PmdkLog::plan(medium.memory().len()).unwrap().encode().to_vec(),
        PmdkKind::Blocks => PmdkBlk { block_size: 512, is_zeroed }.encode().to_vec(),
        PmdkKind::Objects => vec![7; 64],
    };
    put(medium, 4096, &bytes);
    Ok(())
}

/// Stores bytes durably.
pub(crate) fn put<M: Medium>(medium: &M, at: u64, bytes: &[u8]) {
    let stored = FaultScope::run(|| {
        medium.store(PoolOffset::new(at), bytes);
        medium.flush(PoolOffset::new(at), bytes.len() as u64);
    });
    stored.unwrap();
    medium.drain().unwrap();
}

/// Reads bytes.
pub(crate) fn get<M: Medium>(medium: &M, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    medium.memory().reading(|memory| memory.read(PoolOffset::new(at), &mut bytes)).unwrap();
    bytes
}

/// Makes a pool with its first content.
pub(crate) fn create(kind: PmdkKind, path: &Path, size: Option<u64>) -> Result<PmdkPool, PmdkError> {
    PmdkPool::create(path, size, &CreateOptions::new(kind), |medium, is_zeroed| {
        content(kind, &**medium, is_zeroed)
    })
}

/// Returns the names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
