//! The steps in which a change reaches its files.

use rustix::fs::{OFlags, fsync, syncfs};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// One thing done to the directory. A change is a list of them, so that tests can stop after each.
///
/// Paths are relative to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A file with these bytes, whatever was there before; not yet durable.
    Create(PathBuf, Vec<u8>),
    /// What is in a file becomes durable.
    Persist(PathBuf),
    /// What is in all files of the directory, and of its file system, becomes durable: one wait instead of many.
    PersistAll,
    /// A file gets another name, and what had that name is gone.
    Rename(PathBuf, PathBuf),
    /// The names in a folder become durable.
    PersistNames(PathBuf),
    /// Bytes at an offset of a file that is there.
    Write(PathBuf, u64, Vec<u8>),
    /// A file is gone.
    Remove(PathBuf),
}

impl Step {
    /// Does it in the directory `root`.
    pub(crate) fn run(&self, root: &Path) -> io::Result<()> {
        match self {
            Step::Create(path, bytes) => File::create(root.join(path))?.write_all(bytes),
            Step::Persist(path) => Ok(fsync(File::open(root.join(path))?)?),
            Step::PersistAll => Ok(syncfs(File::open(root)?)?),
            Step::Rename(from, to) => fs::rename(root.join(from), root.join(to)),
            Step::PersistNames(path) => {
                let flags = OFlags::DIRECTORY.bits() as i32;
                let folder = OpenOptions::new().read(true).custom_flags(flags).open(root.join(path))?;
                Ok(fsync(folder)?)
            }
            Step::Write(path, off, bytes) => {
                OpenOptions::new().write(true).open(root.join(path))?.write_all_at(bytes, *off)
            }
            Step::Remove(path) => fs::remove_file(root.join(path)),
        }
    }

    /// Where it is done.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Step::PersistAll => Path::new(""),
            Step::Create(path, _)
            | Step::Persist(path)
            | Step::Rename(path, _)
            | Step::PersistNames(path)
            | Step::Write(path, ..)
            | Step::Remove(path) => path,
        }
    }
}
