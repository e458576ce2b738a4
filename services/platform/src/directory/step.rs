//! Steps in which a change is written to its files.

use rustix::fs::{FallocateFlags, OFlags, fallocate, fsync, syncfs};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// One action on the directory. A change is a list of them, so that tests can stop after each.
///
/// Paths are relative to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Creates or overwrites a file with these bytes. Not yet durable.
    Create(PathBuf, Vec<u8>),
    /// Syncs a file.
    Persist(PathBuf),
    /// Syncs the whole file system of the directory: one wait instead of many.
    PersistAll,
    /// Renames a file over any other one.
    Rename(PathBuf, PathBuf),
    /// Renames a file like `Rename`. Does nothing if the file is missing, since the step was done already.
    Replace(PathBuf, PathBuf),
    /// Syncs the directory entries of a folder.
    PersistNames(PathBuf),
    /// Writes bytes at an offset of an existing file.
    Write(PathBuf, u64, Vec<u8>),
    /// Writes zeros at an offset of an existing file, as a hole if its file system supports that.
    Zero(PathBuf, u64, u64),
    /// Makes a file of this length, of zeros. Leaves a file that exists and is not shorter.
    Make(PathBuf, u64),
    /// Removes a file.
    Remove(PathBuf),
    /// Removes a file. Does nothing if it is missing, since the step was done already.
    Discard(PathBuf),
    /// Makes a folder that only its owner may enter. Does nothing if it exists.
    MakeFolder(PathBuf),
}

impl Step {
    /// Executes the step in the directory `root`.
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
            Step::Make(path, len) => {
                let file =
                    OpenOptions::new().write(true).create(true).truncate(false).open(root.join(path))?;
                let has = file.metadata()?.len();
                if has < *len { file.set_len(*len) } else { Ok(()) }
            }
            Step::Remove(path) => fs::remove_file(root.join(path)),
            Step::Discard(path) => match fs::remove_file(root.join(path)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            },
            Step::MakeFolder(path) => DirBuilder::new().recursive(true).mode(0o700).create(root.join(path)),
        }
    }

    /// Returns the path that the step changes.
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
            | Step::Make(path, ..)
            | Step::Remove(path)
            | Step::Discard(path)
            | Step::MakeFolder(path) => path,
        }
    }
}

/// Zeroes a range: a hole, or bytes if the file system has no holes.
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
