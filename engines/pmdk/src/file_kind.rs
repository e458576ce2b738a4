//! The kind of file that a path names, found in PMDK's order.

use crate::error::PmdkError;
use rustix::fs::{self as rfs, Access, FileType};
use rustix::io::Errno;
use std::path::Path;

/// The kind of a file. A link is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// There is none.
    Absent,
    File,
    Directory,
    /// A character device, of any kind.
    Device,
}

impl FileKind {
    /// Finds the kind of the file at `path`.
    ///
    /// # Errors
    /// [`PmdkError::Io`] if the kernel does not tell, [`PmdkError::FileType`] for a pipe, a socket or a block device.
    pub(crate) fn find(path: &Path) -> Result<FileKind, PmdkError> {
        if !exists(path)? {
            return Ok(FileKind::Absent);
        }
        let stat = rfs::stat(path).map_err(PmdkError::errno("stat", path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(FileKind::File),
            FileType::Directory => Ok(FileKind::Directory),
            FileType::CharacterDevice => Ok(FileKind::Device),
            _ => Err(PmdkError::FileType { path: path.to_owned(), mode: stat.st_mode }),
        }
    }
}

/// Returns true if the path names something, of any kind.
///
/// # Errors
/// [`PmdkError::Io`] if the kernel does not tell.
pub(crate) fn exists(path: &Path) -> Result<bool, PmdkError> {
    match rfs::access(path, Access::EXISTS) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(PmdkError::errno("os_access", path)(errno)),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_kind_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "").unwrap();
        let kind = |path: &Path| FileKind::find(path).unwrap();
        assert_eq!(kind(&path), FileKind::File);
        assert_eq!(kind(folder.path()), FileKind::Directory);
        assert_eq!(kind(Path::new("/dev/null")), FileKind::Device);
        assert_eq!(kind(&folder.path().join("missing")), FileKind::Absent);
        assert_eq!(kind(Path::new("")), FileKind::Absent);
        let error = FileKind::find(&path.join("below")).unwrap_err();
        assert!(error.to_string().starts_with("os_access \""), "{error}");
        let pipe = folder.path().join("pipe");
        rfs::mkfifoat(rfs::CWD, &pipe, rfs::Mode::RUSR).unwrap();
        let error = FileKind::find(&pipe).unwrap_err();
        assert!(error.to_string().starts_with("file type 010000 not supported"), "{error}");
        assert!(exists(&pipe).unwrap());
    }
}
