//! A file that appears under its name when it is whole, or never.

use crate::PoolError;
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::fs::{fallocate, fsync, linkat, openat, renameat_with, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use uuid::Uuid;

/// A file without its final name. Dropping it leaves nothing behind.
///
/// Where the file system can, it has no name at all (O_TMPFILE), so that not even SIGKILL leaves anything;
/// elsewhere it has a hidden name in the same directory, which drop removes.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    directory: OwnedFd,
    name: OsString,
    hidden_name: Option<OsString>,
}

impl NewFile {
    /// A file of no bytes that is going to be `path`.
    ///
    /// # Errors
    /// [`PoolError::NotAFile`] when the path does not end with a name, [`PoolError::Io`].
    pub(crate) fn create(path: &Path) -> Result<NewFile, PoolError> {
        let (directory, name) = open_directory(path)?;
        match NewFile::without_name(&directory) {
            Ok(file) => Ok(NewFile { file, directory, name, hidden_name: None }),
            // What file systems and kernels say that do not know O_TMPFILE.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                NewFile::with_hidden_name(directory, name)
            }
            Err(errno) => Err(PoolError::io("create", errno)),
        }
    }

    fn without_name(directory: &OwnedFd) -> Result<File, Errno> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        openat(directory, ".", flags, mode()).map(File::from)
    }

    fn with_hidden_name(directory: OwnedFd, name: OsString) -> Result<NewFile, PoolError> {
        let mut hidden = OsString::from(".");
        hidden.push(&name);
        hidden.push(format!(".new-{}", Uuid::new_v4().simple()));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&directory, hidden.as_os_str(), flags, mode())
            .map_err(|errno| PoolError::io("create", errno))?;
        Ok(NewFile { file: File::from(file), directory, name, hidden_name: Some(hidden) })
    }

    /// The file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, durably.
    ///
    /// # Errors
    /// [`PoolError::Exists`] when something has that name by now, [`PoolError::Io`].
    ///
    /// # Durability
    /// The content and the name of the file are durable when it returns. After a crash before that, the file
    /// is there, whole, or it is not there.
    pub(crate) fn publish(self) -> Result<(), PoolError> {
        // ORDER: content before name. Stop here: no file.
        retry_on_intr(|| fsync(&self.file)).map_err(|errno| PoolError::io("fsync", errno))?;
        match &self.hidden_name {
            None => self.link()?,
            Some(hidden) => self.rename(hidden)?,
        }
        // ORDER: the name before anybody is told that the pool exists. Stop here: a whole file, or none.
        retry_on_intr(|| fsync(&self.directory)).map_err(|errno| PoolError::io("fsync directory", errno))
    }

    /// Renames, or where the file system can't rename without replacing, adds the name; drop then removes the
    /// hidden one.
    fn rename(&self, hidden: &OsStr) -> Result<(), PoolError> {
        let (from, to) = (&self.directory, &self.directory);
        match renameat_with(from, hidden, to, &self.name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => linkat(from, hidden, to, &self.name, AtFlags::empty()),
            other => other,
        }
        .map_err(|errno| PoolError::named("rename", errno))
    }

    fn link(&self) -> Result<(), PoolError> {
        let itself = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let linked = linkat(CWD, itself, &self.directory, &self.name, AtFlags::SYMLINK_FOLLOW);
        match linked {
            // No /proc here: the direct way, which older kernels only allow to root.
            Err(Errno::NOENT) => linkat(&self.file, "", &self.directory, &self.name, AtFlags::EMPTY_PATH),
            other => other,
        }
        .map_err(|errno| PoolError::named("link", errno))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden_name {
            // After a rename the name is gone already. Nobody is left to tell of any other failure, and the
            // name says what the file is.
            let _ = unlinkat(&self.directory, hidden, AtFlags::empty());
        }
    }
}

/// Makes the file at least `len` bytes long, with space on the device behind every byte: a full disk is found
/// now, not by a store to a mapping.
///
/// # Errors
/// [`PoolError::Io`]; the file has its old length then.
pub(crate) fn allocate(file: &File, len: u64) -> Result<(), PoolError> {
    let failed = |errno| PoolError::io("allocate", errno);
    let old_len = file.metadata().map_err(PoolError::std("stat"))?.len();
    let allocated = match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, old_len, len),
        other => other.map_err(failed),
    };
    if allocated.is_err() {
        // What was allocated before the disk was full goes back; if even that fails, the file is only longer
        // than the pool in it, which is no damage.
        let _ = file.set_len(old_len);
    }
    allocated
}

fn write_zeros(file: &File, from: u64, to: u64) -> Result<(), PoolError> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let mut done = from;
    while done < to {
        let step = (to - done).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..step as usize], done).map_err(PoolError::std("allocate"))?;
        done += step;
    }
    Ok(())
}

fn open_directory(path: &Path) -> Result<(OwnedFd, OsString), PoolError> {
    let name = path.file_name().ok_or(PoolError::NotAFile)?.to_owned();
    let parent = path.parent().filter(|parent| *parent != OsStr::new("")).unwrap_or(Path::new("."));
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let directory =
        openat(CWD, parent, flags, Mode::empty()).map_err(|errno| PoolError::io("open directory", errno))?;
    Ok((directory, name))
}

/// Readable and writable by all that the umask lets, as for every file a program makes.
fn mode() -> Mode {
    Mode::from_raw_mode(0o666)
}

#[cfg(test)]
mod test {
    use super::*;
    use std::fs;
    use std::io::Write;

    /// Both ways to make a file, whatever this file system can do.
    fn both(path: &Path) -> [NewFile; 2] {
        let (directory, name) = open_directory(path).unwrap();
        let file = NewFile::without_name(&directory).unwrap();
        let unnamed = NewFile { file, directory, name, hidden_name: None };
        let (directory, name) = open_directory(path).unwrap();
        [unnamed, NewFile::with_hidden_name(directory, name).unwrap()]
    }

    fn names(directory: &Path) -> Vec<OsString> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn appears_whole() {
        for way in 0..2 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("pool");
            let [unnamed, hidden] = both(&path);
            let (new, other) = if way == 0 { (unnamed, hidden) } else { (hidden, unnamed) };
            drop(other);
            allocate(new.file(), 10_000).unwrap();
            new.file().write_all(b"whole").unwrap();
            assert!(!path.exists());
            new.publish().unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!((bytes.len(), &bytes[..5], names(directory.path()).len()), (10_000, &b"whole"[..], 1));
        }
    }

    #[test]
    fn never_replaces() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        fs::write(&path, "other").unwrap();
        for new in both(&path) {
            assert!(matches!(new.publish(), Err(PoolError::Exists)));
        }
        assert_eq!(fs::read(&path).unwrap(), b"other");
        assert_eq!(names(directory.path()), ["pool"]);
    }

    #[test]
    fn leaves_nothing_when_dropped() {
        let directory = tempfile::tempdir().unwrap();
        drop(both(&directory.path().join("pool")));
        assert!(names(directory.path()).is_empty());
    }

    #[test]
    fn needs_a_name() {
        for path in ["/", "..", ""] {
            assert!(matches!(NewFile::create(Path::new(path)), Err(PoolError::NotAFile)), "{path}");
        }
    }

    #[test]
    fn allocated_without_the_help_of_the_file_system() {
        let file = tempfile::tempfile().unwrap();
        write_zeros(&file, 0, 200_001).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 200_001);
    }
}
