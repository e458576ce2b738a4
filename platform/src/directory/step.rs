//! The steps in which a change reaches its files.

use rustix::fs::{FallocateFlags, OFlags, fallocate, fsync, syncfs};
use rustix::io::Errno;
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
    /// The same, unless it was done already: then the first file is not there.
    Replace(PathBuf, PathBuf),
    /// The names in a folder become durable.
    PersistNames(PathBuf),
    /// Bytes at an offset of a file that is there.
    Write(PathBuf, u64, Vec<u8>),
    /// Zeros at an offset of a file that is there, which take no space if its file system knows how.
    Zero(PathBuf, u64, u64),
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
            Step::Replace(from, to) => match fs::rename(root.join(from), root.join(to)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                renamed => renamed,
            },
            Step::PersistNames(path) => {
                let flags = OFlags::DIRECTORY.bits() as i32;
                let folder = OpenOptions::new().read(true).custom_flags(flags).open(root.join(path))?;
                Ok(fsync(folder)?)
            }
            Step::Write(path, off, bytes) => {
                OpenOptions::new().write(true).open(root.join(path))?.write_all_at(bytes, *off)
            }
            Step::Zero(path, off, len) => {
                zero(&OpenOptions::new().write(true).open(root.join(path))?, *off, *len)
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
            | Step::Replace(_, path)
            | Step::PersistNames(path)
            | Step::Write(path, ..)
            | Step::Zero(path, ..)
            | Step::Remove(path) => path,
        }
    }
}

/// Makes zeros of a range: a hole, or bytes where the file system has no holes.
fn zero(file: &File, off: u64, len: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, off, len) {
        Err(Errno::OPNOTSUPP) => {
            let zeros = [0; 64 << 10];
            let mut done = 0;
            while done < len {
                let part = (len - done).min(zeros.len() as u64);
                file.write_all_at(&zeros[..part as usize], off + done)?;
                done += part;
            }
            Ok(())
        }
        punched => Ok(punched?),
    }
}
