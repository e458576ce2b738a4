//! Failures of a call: an errno, and a sentence for the program's user.

use lode_capi_entry::{remedy_of, words_of};
use std::io;

/// A failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) errno: i32,
    pub(crate) text: String,
}

/// The remedies of a call that say more than those of its errno.
const REMEDIES: [(&str, i32, &str); 13] = [
    ("open", libc::EISDIR, "name a file in it, or add PMEM_FILE_TMPFILE"),
    ("open", libc::EEXIST, "PMEM_FILE_EXCL asks for a new file: remove this one, or leave out the flag"),
    (
        "open",
        libc::ENOENT,
        "the file, or a folder of its path, is missing: PMEM_FILE_CREATE creates the file",
    ),
    ("open", libc::EACCES, "the mapping needs permission to read and to write"),
    ("open", libc::EROFS, "the mapping needs a file system that is mounted for writing"),
    ("posix_fallocate", libc::ENOSPC, "free some space, or map a sparse file with PMEM_FILE_SPARSE"),
    ("posix_fallocate", libc::EFBIG, "the limit of the file system or of `ulimit -f` is lower"),
    ("posix_fallocate", libc::EOPNOTSUPP, "this file system allocates no space: use PMEM_FILE_SPARSE"),
    ("mmap", libc::ENOMEM, "the process has no free addresses for it, or `ulimit -v` is lower"),
    ("mmap", libc::EINVAL, "an empty file can't be mapped: create it with PMEM_FILE_CREATE and a length"),
    ("msync", libc::ENOMEM, "a part of the range is not mapped"),
    ("munmap", libc::EINVAL, "pass the address and the length of a mapping, in whole pages"),
    ("mkstemp", libc::ENOENT, "name a folder that exists: the file gets no name in it"),
];

impl Failure {
    /// Returns the failure of an argument: EINVAL.
    pub(crate) fn invalid(text: impl Into<String>) -> Failure {
        Failure { errno: libc::EINVAL, text: text.into() }
    }

    /// Returns the failure of a system call. `words` are PMDK's, which programs may look for, and `call` is the name of
    /// the system call in them.
    pub(crate) fn of_call(call: &str, words: &str, error: &io::Error) -> Failure {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        let own = REMEDIES.iter().find(|(of, with, _)| *of == call && *with == errno);
        let remedy = own.map_or_else(|| remedy_of(errno), |(_, _, remedy)| remedy);
        Failure { errno, text: format!("{words}: {}; {remedy}", words_of(errno)) }
    }

    /// Returns the failure of a call in a signal handler that interrupted another call: EDEADLK.
    pub(crate) fn interrupted() -> Failure {
        let text =
            "the signal handler interrupted a call of libpmem in its thread; make the call after the handler";
        Failure { errno: libc::EDEADLK, text: text.into() }
    }

    /// Returns the failure of an invariant of this library.
    pub(crate) fn broken() -> Failure {
        Failure { errno: libc::EIO, text: "internal error of Lodestone's libpmem; report it".into() }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn failures_begin_with_the_words_of_pmdk() {
        let error = io::Error::from_raw_os_error(libc::EEXIST);
        let failure = Failure::of_call("open", "open /pmem/file", &error);
        assert_eq!(failure.errno, libc::EEXIST);
        assert_eq!(
            failure.text,
            "open /pmem/file: File exists; PMEM_FILE_EXCL asks for a new file: remove this one, or leave out the flag"
        );
        let other = io::Error::other("no number");
        assert_eq!(
            Failure::of_call("munmap", "munmap", &other).text,
            "munmap: Input/output error; look for errors of the device in the kernel's log"
        );
    }
}
