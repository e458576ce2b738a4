//! The reason why a program's pools are careful.

use crate::executable::own_flush_of_file;
use crate::loaded::LoadedFile;
use crate::own_flush::{OwnFlush, Unreadable};
use crate::passed_over::is_passed_over;
use std::fmt;
use std::path::PathBuf;

/// The reason why a file's code is not known to leave all flushes to the libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The file has a flush of its own.
    Flush {
        /// The file.
        path: PathBuf,
        /// The first flush.
        flush: OwnFlush,
    },
    /// The code can't be looked at.
    Unread {
        /// The file.
        path: PathBuf,
        /// The reason of that.
        why: Unreadable,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Flush { path, flush } => write!(f, "{} has {flush}", path.display()),
            Reason::Unread { path, why } => write!(f, "{} can't be read: {why}", path.display()),
        }
    }
}

/// Looks at a file that a program has loaded, unless it is one that [`is_passed_over`]. Returns the reason for careful pools; `None` if it has none.
pub fn reason_of(file: &LoadedFile) -> Option<Reason> {
    if is_passed_over(&file.path) {
        return None;
    }
    let path = file.path.clone();
    if file.is_deleted {
        return Some(Reason::Unread { path, why: Unreadable("it was removed or replaced".into()) });
    }
    match own_flush_of_file(&path) {
        Ok(flush) => flush.map(|flush| Reason::Flush { path, flush }),
        Err(why) => Some(Reason::Unread { path, why }),
    }
}
