//! A new file that gets its name only when it is whole.

use crate::PmemError;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::fs::{fsync, linkat, openat, renameat_with, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A file without its final name. Dropping it removes it.
///
/// If the file system allows it, the file has no name at all (O_TMPFILE), so even SIGKILL leaves nothing. Otherwise
/// it has a hidden name in the same directory, which drop removes.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    directory: OwnedFd,
    name: OsString,
    hidden_name: Option<OsString>,
}

impl NewFile {
    /// Creates an empty file that will become `path`.
    ///
    /// # Errors
    /// [`PmemError::NotMappable`] when the path does not end with a name, [`PmemError::Io`].
    pub fn create(path: &Path) -> Result<NewFile, PmemError> {
        let (directory, name) = open_directory(path)?;
        match NewFile::without_name(&directory) {
            Ok(file) => Ok(NewFile { file, path: path.to_owned(), directory, name, hidden_name: None }),
            // Errors of file systems and kernels that do not know O_TMPFILE.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                NewFile::with_hidden_name(path, directory, name)
            }
            Err(errno) => Err(refused("create", path, errno)),
        }
    }

    fn without_name(directory: &OwnedFd) -> Result<File, Errno> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        openat(directory, ".", flags, mode()).map(File::from)
    }

    fn with_hidden_name(path: &Path, directory: OwnedFd, name: OsString) -> Result<NewFile, PmemError> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut number = 0_u64;
        loop {
            let mut hidden = OsString::from(".");
            hidden.push(&name);
            hidden.push(format!(".new-{}-{number}", std::process::id()));
            match openat(&directory, hidden.as_os_str(), flags, mode()) {
                // Another thread, or a killed process with the same number, has this name.
                Err(Errno::EXIST) => number += 1,
                Err(errno) => return Err(refused("create", path, errno)),
                Ok(file) => {
                    let (file, path) = (File::from(file), path.to_owned());
                    return Ok(NewFile { file, path, directory, name, hidden_name: Some(hidden) });
                }
            }
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, durably.
    ///
    /// # Errors
    /// [`PmemError::Io`], with the number `EEXIST` when another file has that name by now.
    ///
    /// # Durability
    /// The content and the name of the file are durable when it returns. After a crash before that, the file is there
    /// and whole, or it is not there.
    pub fn publish(self) -> Result<(), PmemError> {
        // ORDER: the content before the name. Stop here: no file.
        retry_on_intr(|| fsync(&self.file)).map_err(|errno| refused("fsync", &self.path, errno))?;
        match &self.hidden_name {
            None => self.link()?,
            Some(hidden) => self.rename(hidden)?,
        }
        // ORDER: the name before any caller learns that the file exists. Stop here: a whole file, or none.
        retry_on_intr(|| fsync(&self.directory))
            .map_err(|errno| refused("fsync directory", &self.path, errno))
    }

    /// Renames the file. If the file system can't rename without replacing, it adds the name instead, and drop
    /// removes the hidden one.
    fn rename(&self, hidden: &OsStr) -> Result<(), PmemError> {
        let (from, to) = (&self.directory, &self.directory);
        match renameat_with(from, hidden, to, &self.name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => linkat(from, hidden, to, &self.name, AtFlags::empty()),
            other => other,
        }
        .map_err(|errno| refused("rename", &self.path, errno))
    }

    fn link(&self) -> Result<(), PmemError> {
        let itself = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let linked = linkat(CWD, itself, &self.directory, &self.name, AtFlags::SYMLINK_FOLLOW);
        match linked {
            // Without /proc, link the descriptor directly, which older kernels allow only to root.
            Err(Errno::NOENT) => linkat(&self.file, "", &self.directory, &self.name, AtFlags::EMPTY_PATH),
            other => other,
        }
        .map_err(|errno| refused("link", &self.path, errno))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden_name {
            // After a rename the hidden name is gone already. Any other failure could not be reported to a caller, and
            // the name tells what the file is.
            let _ = unlinkat(&self.directory, hidden, AtFlags::empty());
        }
    }
}

fn open_directory(path: &Path) -> Result<(OwnedFd, OsString), PmemError> {
    // As open(2) says of such a path.
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") && path.file_name().is_some() {
        return Err(refused("create", path, Errno::ISDIR));
    }
    let name = path.file_name().ok_or_else(|| PmemError::NotMappable { path: path.to_owned() })?.to_owned();
    let parent = path.parent().filter(|parent| *parent != OsStr::new("")).unwrap_or(Path::new("."));
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let directory = openat(CWD, parent, flags, Mode::empty());
    Ok((directory.map_err(|errno| refused("open directory", path, errno))?, name))
}

fn refused(op: &'static str, path: &Path, errno: Errno) -> PmemError {
    PmemError::io(op, path, &errno.into())
}

/// Returns the mode of a new file: read and write for all that the umask allows.
fn mode() -> Mode {
    Mode::from_raw_mode(0o666)
}

#[cfg(test)]
mod test {
    use super::*;
    use libc::EEXIST;
    use std::fs;
    use std::io::Write;

    /// Returns a new file of each kind, whatever this file system supports.
    fn both(path: &Path) -> [NewFile; 2] {
        let (directory, name) = open_directory(path).unwrap();
        let file = NewFile::without_name(&directory).unwrap();
        let unnamed = NewFile { file, path: path.to_owned(), directory, name, hidden_name: None };
        let (directory, name) = open_directory(path).unwrap();
        [unnamed, NewFile::with_hidden_name(path, directory, name).unwrap()]
    }

    fn names(directory: &Path) -> Vec<OsString> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn file_appears_complete() {
        for way in 0..2 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("pool");
            let [unnamed, hidden] = both(&path);
            let (new, other) = if way == 0 { (unnamed, hidden) } else { (hidden, unnamed) };
            drop(other);
            new.file().set_len(10_000).unwrap();
            new.file().write_all(b"whole").unwrap();
            assert!(!path.exists());
            new.publish().unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!((bytes.len(), &bytes[..5], names(directory.path()).len()), (10_000, &b"whole"[..], 1));
        }
    }

    #[test]
    fn existing_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        fs::write(&path, "other").unwrap();
        for new in both(&path) {
            assert!(matches!(new.publish(), Err(PmemError::Io { errno: EEXIST, .. })));
        }
        assert_eq!(fs::read(&path).unwrap(), b"other");
        assert_eq!(names(directory.path()), ["pool"]);
    }

    #[test]
    fn dropped_file_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        drop(both(&directory.path().join("pool")));
        assert!(names(directory.path()).is_empty());
    }

    #[test]
    fn path_needs_a_file_name() {
        for path in ["/", "..", ""] {
            assert!(matches!(NewFile::create(Path::new(path)), Err(PmemError::NotMappable { .. })), "{path}");
        }
    }
}
