//! The file that describes a change of a set: opened and made such that no other user can put another one there.

use crate::error::PmdkError;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Most bytes of a description: headers of some thousand parts.
pub(crate) const LEN_MAX: u64 = 64 << 20;

/// Reads the description at `path` of a change of the set file `set`. `None` if there is none.
pub(crate) fn read(path: &Path, set: &Path) -> Result<Option<Vec<u8>>, PmdkError> {
    let refused = |words: &str| PmdkError::ChangedSince { path: path.to_owned(), what: words.to_owned() };
    // The open of a pipe waits, and a link may lead anywhere.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(refused("its description is a link")),
        Err(errno) => return Err(PmdkError::errno("open", path)(errno)),
    };
    let found = fstat(&file).map_err(PmdkError::errno("fstat", path))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(refused("its description is no regular file"));
    }
    let is_of_set = fs::metadata(set).is_ok_and(|set| set.uid() == found.st_uid);
    if found.st_uid != 0 && found.st_uid != geteuid().as_raw() && !is_of_set {
        return Err(refused("its description belongs to a user that does not own the set file"));
    }
    let mut text = Vec::new();
    file.take(LEN_MAX + 1).read_to_end(&mut text).map_err(PmdkError::io("read", path))?;
    if text.len() as u64 > LEN_MAX {
        return Err(refused("its description is longer than any that is made"));
    }
    Ok(Some(text))
}

/// Makes the file of a new description. One that an interrupted call has left is removed.
pub(crate) fn create(path: &Path) -> Result<File, PmdkError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(PmdkError::io("unlink", path)(error));
        }
        _ => {}
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::from_raw_mode(0o644));
    file.map(File::from).map_err(PmdkError::errno("open", path))
}

#[cfg(test)]
mod test {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_pipes_and_long_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [set, path, other] = ["set", "change", "other"].map(|name| folder.path().join(name));
        fs::write(&set, "PMEMPOOLSET\n").unwrap();
        let refusal = || read(&path, &set).unwrap_err().to_string();
        assert_eq!(read(&path, &set).unwrap(), None);
        fs::write(&other, "text").unwrap();
        symlink(&other, &path).unwrap();
        assert!(refusal().contains("is a link"), "{}", refusal());
        drop(create(&path).unwrap());
        assert_eq!(fs::read(&other).unwrap(), b"text", "the link was removed, and not followed");
        assert_eq!(read(&path, &set).unwrap(), Some(Vec::new()));
        File::options().write(true).open(&path).unwrap().set_len(LEN_MAX + 1).unwrap();
        assert!(refusal().contains("longer"), "{}", refusal());
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(refusal().contains("no regular file"), "{}", refusal());
    }
}
