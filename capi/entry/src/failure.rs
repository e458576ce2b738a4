//! Failures of a call that sets errno: a number, and a sentence for the program's user.

use crate::process::words_of;
use crate::remedy::remedy_of;
use std::borrow::Cow;
use std::io;

/// A failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The errno that the program finds.
    pub errno: i32,
    /// The message.
    pub text: Cow<'static, str>,
}

impl Failure {
    /// Returns a failure with this errno.
    pub fn new(errno: i32, text: impl Into<Cow<'static, str>>) -> Failure {
        Failure { errno, text: text.into() }
    }

    /// Returns the failure of an argument or of a pool: EINVAL.
    pub fn invalid(text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(libc::EINVAL, text)
    }

    /// Returns the failure of a system call, with the remedy of its errno. `words` are PMDK's, which programs may look for.
    pub fn of_call(words: &str, error: &io::Error) -> Failure {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        Failure::new(errno, format!("{words}: {}; {}", words_of(errno), remedy_of(errno)))
    }

    /// Returns the failure of a call that got no memory, without an allocation.
    pub fn no_memory() -> Failure {
        Failure::new(
            libc::ENOMEM,
            "malloc: Cannot allocate memory; the process, or the function that it has set, has too little",
        )
    }

    /// Returns the failure of an invariant of this library.
    pub fn broken() -> Failure {
        Failure::new(libc::EIO, "internal error of Lodestone; report it")
    }

    /// Returns the same failure with a remedy at the end of its text.
    #[must_use]
    pub fn and(mut self, remedy: &str) -> Failure {
        let text = self.text.to_mut();
        text.push_str("; ");
        text.push_str(remedy);
        self
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn failures_begin_with_the_words_of_pmdk() {
        let failure = Failure::of_call("open \"f\"", &io::Error::from_raw_os_error(libc::EACCES));
        let text = "open \"f\": Permission denied; give the program's user that permission";
        assert_eq!((failure.errno, &*failure.text), (libc::EACCES, text));
        assert_eq!(Failure::invalid("x").and("read it").text, "x; read it");
        assert_eq!(Failure::of_call("x", &io::Error::other("no number")).errno, libc::EIO);
    }
}
