//! A file that appears under its name when it is complete, or never.

use super::error::ImageError;
use super::fault::ImageFault;
use crate::error::PlatformError;
use crate::file::error::FileError;
use rustix::fs::{AtFlags, CWD, OFlags, fsync, linkat};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// Mode before the umask: readable and writable by all.
const MODE: u32 = 0o666;

/// A file without its final name. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct NewFile {
    path: PathBuf,
    folder: PathBuf,
    file: Nameless,
}

/// A file that is not visible under its final name.
#[derive(Debug)]
enum Nameless {
    /// Has no name at all: a killed process leaves no file.
    Unlinked(File),
    /// Has a hidden name, because the file system does not support unnamed files.
    Hidden(NamedTempFile),
}

impl NewFile {
    /// Creates a file of `len` bytes, all of them a hole, to be published as `path`.
    pub(super) fn create(path: &Path, len: u64) -> Result<NewFile, PlatformError> {
        if path.symlink_metadata().is_ok() {
            return Err(ImageError::of(path, ImageFault::Exists).into());
        }
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let io = |error| FileError { what: "making", path: path.to_owned(), error };
        let file = Nameless::create(folder).map_err(io)?;
        let new = NewFile { path: path.to_owned(), folder: folder.to_owned(), file };
        new.file().set_len(len).map_err(io)?;
        Ok(new)
    }

    /// Returns the file.
    pub(super) fn file(&self) -> &File {
        match &self.file {
            Nameless::Unlinked(file) => file,
            Nameless::Hidden(file) => file.as_file(),
        }
    }

    /// Gives the file its name, durably. An existing file with the name stays unchanged.
    pub(super) fn publish(self) -> Result<(), PlatformError> {
        let io = |error: io::Error| FileError { what: "writing", path: self.path.clone(), error };
        // ORDER: content before name. Stop here: no file, or one with a hidden name that marks it as unfinished.
        self.file().sync_all().map_err(io)?;
        let named = match self.file {
            Nameless::Unlinked(file) => {
                let unlinked = format!("/proc/self/fd/{}", file.as_raw_fd());
                let linked = linkat(CWD, unlinked, CWD, &self.path, AtFlags::SYMLINK_FOLLOW);
                linked.map_err(io::Error::from)
            }
            Nameless::Hidden(file) => {
                file.persist_noclobber(&self.path).map(drop).map_err(|failed| failed.error)
            }
        };
        named.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => ImageError::of(&self.path, ImageFault::Exists).into(),
            _ => PlatformError::from(io(error)),
        })?;
        // ORDER: the name before the caller reports the image. Stop here: a complete file, or none.
        Ok(File::open(&self.folder).and_then(|folder| Ok(fsync(folder)?)).map_err(io)?)
    }
}

impl Nameless {
    fn create(folder: &Path) -> io::Result<Nameless> {
        let flags = OFlags::TMPFILE.bits() as i32;
        match File::options().read(true).write(true).custom_flags(flags).mode(MODE).open(folder) {
            // Kernels without the flag read it as O_DIRECTORY, and a folder can't be opened for writing.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::IsADirectory) =>
            {
                let mut builder = Builder::new();
                builder.prefix(".lode-image-").permissions(Permissions::from_mode(MODE));
                builder.tempfile_in(folder).map(Nameless::Hidden)
            }
            file => file.map(Nameless::Unlinked),
        }
    }
}
