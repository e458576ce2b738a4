//! A file system that is easily full.

use crate::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::{NamedTempFile, TempDir};

/// A small file system, mounted until drop.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
    /// The file of an ext4. Removed after the file system is unmounted.
    _image: Option<NamedTempFile>,
}

impl SmallDisk {
    /// Mounts a file system of `len` bytes in memory. Returns `None` where mounting is not permitted, and reports `test` as
    /// skipped.
    pub fn mount(test: &str, len: u64) -> Option<SmallDisk> {
        let disk = SmallDisk { folder: tempfile::tempdir().unwrap(), _image: None };
        if !disk.run(&["mount", "-t", "tmpfs", "-o", &format!("size={len}"), "lode-test"]) {
            skip(test, "mounting a tmpfs needs root");
            return None;
        }
        Some(disk)
    }

    /// Mounts an ext4 of `len` bytes, journal included. Returns `None` where loop devices are missing or mounting is not
    /// permitted, and reports `test` as skipped.
    pub fn mount_ext4(test: &str, len: u64) -> Option<SmallDisk> {
        let image = NamedTempFile::new().unwrap();
        image.as_file().set_len(len).unwrap();
        let path = image.path().to_str().unwrap().to_owned();
        let made = Command::new("/sbin/mkfs.ext4").args(["-q", "-b", "4096", "-m", "0", &path]).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfs.ext4 of {len} bytes");
        let disk = SmallDisk { folder: tempfile::tempdir().unwrap(), _image: Some(image) };
        if !disk.run(&["mount", "-t", "ext4", "-o", "loop", &path]) {
            skip(test, "mounting an ext4 needs root and loop devices");
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
