#![allow(clippy::unwrap_used, reason = "a test may panic")]
//! Folders for the pools of tests, and pools in them.

use lode_layout::{Durability, Header, LayoutName};
use lode_pmem::Mapping;
use lode_pool::{Access, CreateOptions, OpenOptions, PoolError, PoolFile};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

pub(crate) const SIZE: u64 = 256 << 10;

/// Returns a folder on the file system of the build, removed at the end.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub(crate) fn names(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Returns options for a pool of durability `commit`, on any file system.
pub(crate) fn creating(size: u64) -> CreateOptions {
    CreateOptions {
        durability: Some(Durability::Commit),
        ..CreateOptions::new(size, LayoutName::new("kv").unwrap())
    }
}

pub(crate) fn opening(access: Access) -> OpenOptions {
    OpenOptions { durability: Some(Durability::Commit), ..OpenOptions::new(access) }
}

pub(crate) fn no_content(_: &Mapping, _: &Header) -> Result<(), PoolError> {
    Ok(())
}

pub(crate) fn create(path: &Path) -> PoolFile {
    PoolFile::create(path, &creating(SIZE), no_content).unwrap()
}
