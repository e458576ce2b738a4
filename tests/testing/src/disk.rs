//! A file system that is easily full.

use crate::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A small file system in memory, mounted until drop.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Mounts a file system of `len` bytes. Returns `None` where mounting is not permitted, and reports `test` as
    /// skipped.
    pub fn mount(test: &str, len: u64) -> Option<SmallDisk> {
        let disk = SmallDisk { folder: tempfile::tempdir().unwrap() };
        if !disk.run(&["mount", "-t", "tmpfs", "-o", &format!("size={len}"), "lode-test"]) {
            skip(test, "mounting a tmpfs needs root");
            return None;
        }
        Some(disk)
    }

    /// Returns the path of the file `pool` in it.
    pub fn pool(&self) -> PathBuf {
        self.folder().join("pool")
    }

    /// Returns its root.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes it read-only.
    pub fn make_read_only(&self) {
        assert!(self.run(&["mount", "-o", "remount,ro"]));
    }

    fn run(&self, command: &[&str]) -> bool {
        let (program, arguments) = command.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(arguments).arg(self.folder()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.run(&["umount", "--lazy", "--quiet"]);
    }
}
