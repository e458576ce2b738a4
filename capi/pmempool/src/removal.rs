//! pmempool_rm(3).

use crate::failures::failure;
use crate::pool;
use lode_capi_entry::{Failure, words_of};
use lode_pmdk::{PmdkAccess, PmdkError, PoolSet, begins_as_set, remove_left_change};
use lode_pmem::Sysfs;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// PMEMPOOL_RM_FORCE: errors of removals are ignored.
const FORCE: u32 = 1 << 0;
/// PMEMPOOL_RM_POOLSET_LOCAL: the set file is removed, too.
const SET_FILE: u32 = 1 << 1;
/// PMEMPOOL_RM_POOLSET_REMOTE: set files on other machines are removed, too. There are none.
const REMOTE_SET_FILE: u32 = 1 << 2;
/// Bytes that are cleared at the start of a device-DAX node instead of its removal: PMDK's.
const NODE_LEN: u64 = 4 << 20;

/// Removes the pool at `path`: a file, or the parts of a set file, and with a flag the set file.
///
/// The first part is removed first, so that there is no pool from then on. A removal that was interrupted is finished by another
/// one with PMEMPOOL_RM_FORCE.
///
/// # Errors
/// EINVAL for unknown flags. EAGAIN if another handle has a part open; the others are removed all the same, as PMDK does.
pub(crate) fn remove(path: &Path, flags: u32) -> Result<(), Failure> {
    if flags & !(FORCE | SET_FILE | REMOTE_SET_FILE) != 0 {
        return Err(Failure::invalid(format!(
            "invalid flags specified: {flags:#x}; pass a combination of PMEMPOOL_RM_* flags"
        )));
    }
    let is_forced = flags & FORCE != 0;
    match is_set(path) {
        Ok(false) => forgiven(remove_file(path, ""), is_forced),
        Ok(true) => remove_set(path, flags),
        Err(error) => forgiven(Err(refused("", &error)), is_forced),
    }
}

/// Returns `Ok` for a failure that is to be ignored. PMDK ignores all but that of a folder.
fn forgiven(outcome: Result<(), Failure>, is_forced: bool) -> Result<(), Failure> {
    outcome.or_else(|failure| match is_forced && failure.errno != libc::EISDIR {
        true => Ok(()),
        false => Err(failure),
    })
}

fn remove_set(path: &Path, flags: u32) -> Result<(), Failure> {
    let is_forced = flags & FORCE != 0;
    let set = match PoolSet::read(path, &Sysfs::default()) {
        Ok(set) => set,
        Err(error) => return forgiven(Err(unparsed(&error)), is_forced),
    };
    let mut outcome = Ok(());
    for part in set.replicas().iter().flat_map(|replica| replica.parts()) {
        let words = format!("{}: ", part.path().display());
        // As with PMDK, the last failure is the one that is reported.
        outcome = forgiven(remove_file(part.path(), &words), is_forced).and(outcome);
    }
    outcome?;
    // A description of a change would be followed by the next open of a new pool in this set.
    forgiven(remove_left_change(&set).map_err(|error| failure(&error)), is_forced)?;
    if flags & SET_FILE == 0 {
        return Ok(());
    }
    let removed = remove_file(path, "").map_err(|failure| {
        Failure::new(failure.errno, format!("removing pool set file failed: {}", failure.text))
    });
    if is_forced { Ok(()) } else { removed }
}

/// Returns the failure of a set file that can't be read.
fn unparsed(error: &PmdkError) -> Failure {
    let errno = failure(error).errno;
    Failure::new(errno, format!("parsing poolset file failed: {error}"))
}

/// Returns true for the file of a set.
fn is_set(path: &Path) -> io::Result<bool> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if !metadata.is_file() {
        return Ok(false);
    }
    begins_as_set(&File::open(path)?)
}

/// Removes a file that no handle has open, and clears the start of a device-DAX node. `part` names it in the message.
fn remove_file(path: &Path, part: &str) -> Result<(), Failure> {
    let refused = |error: io::Error| refused(part, &error);
    let metadata = fs::metadata(path).map_err(refused)?;
    if metadata.is_dir() {
        return Err(refused(io::Error::from_raw_os_error(libc::EISDIR)));
    }
    if metadata.file_type().is_char_device() {
        return clear_node(path).map_err(|failure| {
            Failure::new(failure.errno, format!("{part}removing file failed: {}", failure.text))
        });
    }
    // A pipe would wait for its other end, and has no pool.
    if !metadata.is_file() {
        return Err(refused(io::Error::from_raw_os_error(libc::EINVAL)));
    }
    let file = File::open(path).map_err(refused)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| refused(errno.into()))?;
    fs::remove_file(path).map_err(refused)
}

/// Clears the start of a device-DAX node, durably.
fn clear_node(path: &Path) -> Result<(), Failure> {
    let pool = pool::open(path, PmdkAccess::ReadWrite)?;
    let zeros = vec![0; pool.size().min(NODE_LEN) as usize];
    pool.write(0, &zeros).and_then(|()| pool.persist()).map_err(|error| failure(&error))
}

fn refused(part: &str, error: &io::Error) -> Failure {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    let remedy = match errno {
        libc::EAGAIN => "another handle has it open; close the pool there first",
        libc::EISDIR => "it is a folder; name a pool",
        libc::ENOENT => "it is not there; pass PMEMPOOL_RM_FORCE to pass over it",
        _ => "look at its permissions, and those of its folder",
    };
    Failure::new(errno, format!("{part}removing file failed: {}; {remedy}", words_of(errno)))
}

#[cfg(test)]
mod test {
    use super::*;
    use std::path::PathBuf;

    /// A folder with a set of two parts, and the paths of set and parts.
    fn set() -> (tempfile::TempDir, PathBuf, [PathBuf; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let parts = ["a", "b"].map(|name| folder.path().join(name));
        let lines = parts.iter().map(|part| format!("2M {}\n", part.display())).collect::<String>();
        let set = folder.path().join("set");
        fs::write(&set, format!("PMEMPOOLSET\n{lines}")).unwrap();
        parts.iter().for_each(|part| fs::write(part, "x").unwrap());
        (folder, set, parts)
    }

    #[test]
    fn set_file_stays_unless_it_is_asked_for() {
        let (_folder, path, parts) = set();
        remove(&path, 0).unwrap();
        assert!(path.exists() && parts.iter().all(|part| !part.exists()));
        let failure = remove(&path, SET_FILE).unwrap_err();
        assert!(
            failure.errno == libc::ENOENT && failure.text.contains("/b: removing file failed"),
            "{failure:?}"
        );
        assert!(path.exists(), "a part that is missing keeps the set file");
        remove(&path, FORCE | SET_FILE).unwrap();
        assert!(!path.exists());
        assert_eq!(remove(&path, 0).unwrap_err().errno, libc::ENOENT);
        remove(&path, FORCE).unwrap();
    }

    #[test]
    fn interrupted_change_goes_with_the_parts() {
        let (folder, path, _) = set();
        let others = [".set.lode-change", ".a.lode-00000000-0000-0000-0000-000000000001"];
        others.iter().for_each(|name| fs::write(folder.path().join(name), "x").unwrap());
        remove(&path, 0).unwrap();
        assert!(path.exists() && others.iter().all(|name| !folder.path().join(name).exists()));
    }

    #[test]
    fn part_in_use_stays_and_the_others_go() {
        let (_folder, path, parts) = set();
        let open = File::open(&parts[0]).unwrap();
        flock(&open, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(remove(&path, SET_FILE).unwrap_err().errno, libc::EAGAIN);
        assert!(parts[0].exists() && !parts[1].exists() && path.exists());
        drop(open);
        remove(&parts[0], 0).unwrap();
        assert!(!parts[0].exists());
    }

    #[test]
    fn folders_and_unknown_flags_are_refused() {
        let (folder, path, parts) = set();
        for flags in [0, FORCE] {
            assert_eq!(remove(folder.path(), flags).unwrap_err().errno, libc::EISDIR);
        }
        assert_eq!(remove(&path, 8).unwrap_err().errno, libc::EINVAL);
        fs::write(&path, "PMEMPOOLSET\nx\n").unwrap();
        assert!(remove(&path, 0).unwrap_err().text.starts_with("parsing poolset file failed"));
        remove(&path, FORCE | SET_FILE).unwrap();
        assert!(path.exists() && parts[0].exists(), "the set file names no part");
    }
}
