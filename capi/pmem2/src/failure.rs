//! Failures of a call: the number that it returns, and a sentence for the program's user.

use crate::code;
use lode_capi_entry::{remedy_of, words_of};
use std::borrow::Cow;
use std::io;

/// A failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// One of [`code`], or an errno, negative.
    pub(crate) code: i32,
    /// The errno that the program finds: that of the system call that failed; 0 to leave it.
    pub(crate) errno: i32,
    pub(crate) text: Cow<'static, str>,
}

impl Failure {
    /// Returns a failure with one of PMDK's codes.
    pub(crate) fn new(code: i32, text: impl Into<Cow<'static, str>>) -> Failure {
        Failure { code, errno: 0, text: text.into() }
    }

    /// Returns the failure of a call that meets a mapping that is there: errno is EEXIST, as PMDK leaves it.
    pub(crate) fn exists(code: i32, text: impl Into<Cow<'static, str>>) -> Failure {
        Failure { code, errno: libc::EEXIST, text: text.into() }
    }

    /// Returns the failure of a system call, with the remedy that its errno has in general. `words` are PMDK's, which programs may
    /// look for.
    pub(crate) fn of_call(words: &str, error: &io::Error) -> Failure {
        Failure::of_call_with(words, error, remedy_of(error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// Returns the failure of a system call with its own remedy.
    pub(crate) fn of_call_with(words: &str, error: &io::Error, remedy: &str) -> Failure {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        let text = format!("{words}: {}; {remedy}", words_of(errno));
        Failure { code: -errno, errno, text: text.into() }
    }

    /// Returns the failure of an object that gets no memory, without an allocation.
    pub(crate) fn no_memory() -> Failure {
        let text = Cow::Borrowed(
            "malloc: Cannot allocate memory; the process has too little, or `ulimit -v` is lower",
        );
        Failure { code: -libc::ENOMEM, errno: libc::ENOMEM, text }
    }

    /// Returns the same failure with another code.
    pub(crate) fn with_code(self, code: i32) -> Failure {
        Failure { code, ..self }
    }

    /// Returns the failure of an argument that must not be null.
    pub(crate) fn null(argument: &str) -> Failure {
        Failure::new(
            -libc::EINVAL,
            format!("{argument} is null; pass the address of an object of the library"),
        )
    }

    /// Returns the failure of a call in a signal handler that interrupted another call: EDEADLK.
    pub(crate) fn interrupted() -> Failure {
        let text = "the signal handler interrupted a call of libpmem2 in its thread; make the call after the handler";
        Failure::new(-libc::EDEADLK, text)
    }

    /// Returns the failure of an invariant of this library.
    pub(crate) fn broken() -> Failure {
        Failure::new(code::UNKNOWN, "internal error of Lodestone's libpmem2; report it")
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn failures_begin_with_the_words_of_pmdk() {
        let error = io::Error::from_raw_os_error(libc::EACCES);
        let failure = Failure::of_call_with("mmap", &error, "open it for writing").with_code(code::NO_ACCESS);
        assert_eq!((failure.code, failure.errno), (-100_032, libc::EACCES));
        assert_eq!(failure.text, "mmap: Permission denied; open it for writing");
        assert_eq!(Failure::of_call("mmap", &io::Error::other("no number")).code, -libc::EIO);
    }
}
