//! The errno of each error of `lode-pmdk`, whose words are PMDK's.

use crate::failure::Failure;
use lode_pmdk::{PmdkError, SetError, SetFault, SetFileError};
use lode_pmem::PmemError;
use std::io;

/// Returns the failure of a call by an error of the pool's files.
pub(crate) fn of_parts(error: &PmdkError) -> Failure {
    match error {
        PmdkError::Io { op, path, errno }
        | PmdkError::Medium(PmemError::Io { op, path, errno: errno @ 1.. }) => {
            let words = format!("{op} \"{}\"", path.display());
            Failure::of_call(&words, &io::Error::from_raw_os_error(*errno))
        }
        _ => Failure::new(errno_of_pool(error), error.to_string()),
    }
}

/// Returns the errno of an error of the pool's files.
pub fn errno_of_pool(error: &PmdkError) -> i32 {
    match error {
        PmdkError::Io { errno, .. }
        | PmdkError::Allocate { errno, .. }
        | PmdkError::Medium(PmemError::Io { errno, .. }) => *errno,
        PmdkError::InvalidSize { .. } => libc::EFBIG,
        PmdkError::SetFile { error: SetFileError { fault: SetFault::Remote { .. }, .. }, .. } => {
            libc::ENOTSUP
        }
        PmdkError::Set { error, .. } => of_set(error),
        PmdkError::InUse { .. } => libc::EAGAIN,
        PmdkError::Exists { .. } | PmdkError::NotEmpty { .. } => libc::EEXIST,
        PmdkError::BadBlocks { .. } | PmdkError::Memory { .. } | PmdkError::Drain { .. } => libc::EIO,
        _ => libc::EINVAL,
    }
}

fn of_set(error: &SetError) -> i32 {
    match error {
        SetError::Replication | SetError::Replicas | SetError::PrivateDevices => libc::ENOTSUP,
        SetError::DirectoryTwice(_) => libc::EEXIST,
        // The second lock is refused.
        SetError::PartTwice(_) => libc::EAGAIN,
        SetError::Empty(_) => libc::ENOENT,
        _ => libc::EINVAL,
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn errors_have_the_errno_of_the_manual_pages() {
        let path = || PathBuf::from("/pool");
        let set = |error| PmdkError::Set { path: path(), error };
        for (error, errno, words) in [
            (
                PmdkError::Io { op: "open", path: path(), errno: 2 },
                libc::ENOENT,
                "open \"/pool\": No such file",
            ),
            (
                PmdkError::Allocate { path: path(), size: 7, errno: 28 },
                28,
                "posix_fallocate \"/pool\", 7: No space",
            ),
            (PmdkError::InvalidSize { path: path(), size: 7 }, libc::EFBIG, "invalid size (7) for os_off_t"),
            (
                PmdkError::InUse { path: path(), holder: None },
                libc::EAGAIN,
                "flock \"/pool\": Resource temporarily",
            ),
            (PmdkError::NotEmpty { path: path() }, libc::EEXIST, "Non-empty file detected"),
            (PmdkError::Folder { path: path() }, libc::EINVAL, "stat \"/pool\": negative size"),
            (set(SetError::Replication), libc::ENOTSUP, "replication not supported"),
            (set(SetError::Replicas), libc::ENOTSUP, "replicas not supported: Operation not supported"),
            (set(SetError::NoHeaders), libc::EINVAL, "the NOHDRS poolset option is not supported"),
            (set(SetError::DirectoryTwice(path())), libc::EEXIST, "cannot use the same directory twice"),
            (set(SetError::PartTwice(path())), libc::EAGAIN, "flock \"/pool\": Resource temporarily"),
            (set(SetError::Empty(path())), libc::ENOENT, "no parts in replicas: No such file or directory"),
        ] {
            let failure = of_parts(&error);
            assert_eq!(failure.errno, errno, "{failure:?}");
            assert!(failure.text.starts_with(words), "{failure:?} is not {words}");
        }
    }
}
