#![allow(clippy::unwrap_used, reason = "a test may panic")]
//! Folders and file systems for the pools of tests, and pools in them.

use lode_layout::{Header, LayoutName, Rung};
use lode_pmem::Mapping;
use lode_pool::{Access, CreateOptions, OpenOptions, PoolError, PoolFile};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub(crate) const SIZE: u64 = 256 << 10;

/// Returns a folder on the file system of the build, removed at the end.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub(crate) fn names(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Returns options for a pool of rung `commit`, on any file system.
pub(crate) fn creating(size: u64) -> CreateOptions {
    CreateOptions { rung: Some(Rung::Commit), ..CreateOptions::new(size, LayoutName::new("kv").unwrap()) }
}

pub(crate) fn opening(access: Access) -> OpenOptions {
    OpenOptions { rung: Some(Rung::Commit), ..OpenOptions::new(access) }
}

pub(crate) fn no_content(_: &Mapping, _: &Header) -> Result<(), PoolError> {
    Ok(())
}

pub(crate) fn create(path: &Path) -> PoolFile {
    PoolFile::create(path, &creating(SIZE), no_content).unwrap()
}

/// A small file system in memory, mounted until drop.
pub(crate) struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Mounts it; prints a reason and returns `None` if the test may not mount.
    pub(crate) fn mount(bytes: u64) -> Option<SmallDisk> {
        let disk = SmallDisk { folder: folder() };
        if !disk.run(&["mount", "-t", "tmpfs", "-o", &format!("size={bytes}"), "lode-test"]) {
            io::stderr().write_all(b"SKIP small_disk: mounting a tmpfs needs root\n").unwrap();
            return None;
        }
        Some(disk)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn make_read_only(&self) {
        assert!(self.run(&["mount", "-o", "remount,ro"]));
    }

    fn run(&self, command: &[&str]) -> bool {
        let (program, arguments) = command.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(arguments).arg(self.folder.path()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.run(&["umount", "--lazy", "--quiet"]);
    }
}
