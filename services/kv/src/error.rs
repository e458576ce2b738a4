//! Errors of a store and of a load.

use crate::STORE_SIZE_MIN;
use crate::escape::escape;
use crate::line_error::LineError;
use lode_follow::FollowError;
use lode_heap::{HeapError, OpenError};
use lode_index::IndexError;
use lode_layout::{LayoutName, PoolOffset};
use std::{fmt, io};

/// Largest number of trees that an error names.
const TREES_SHOWN_MAX: usize = 20;

/// Reason why an operation on a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    /// The pool could not be made, opened, grown or closed.
    #[error(transparent)]
    Pool(#[from] OpenError),
    /// The pool would have no room for keys.
    #[error(
        "{size} bytes are too few for a pool with a tree in it, it needs {STORE_SIZE_MIN}; choose another size"
    )]
    TooSmall {
        /// Size in bytes.
        size: u64,
    },
    /// The process that has the pool open does not serve it, or failed.
    #[error(transparent)]
    Follow(FollowError),
    /// The tree, or the heap below it, failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A key was not found. Damage may be the reason.
    #[error("the key is not found, which damage may be the reason of: {0}")]
    Unproven(#[source] IndexError),
    /// The tree leads to more or fewer keys than it has counted.
    #[error(
        "the tree leads to {} keys, and has counted {counted} of them at {at}: keys are lost, or the count is damaged",
        Found { found: *found, counted: *counted }
    )]
    Count {
        /// Number of keys that the tree has counted.
        counted: u64,
        /// Number of keys to which the tree leads. If there are more than it has counted, one more than that.
        found: u64,
        /// Offset of the count.
        at: PoolOffset,
    },
    /// The progress of a load is damaged.
    #[error("the progress of the last load at {at} is damaged")]
    Load {
        /// Offset of the progress.
        at: PoolOffset,
    },
    /// The pool has trees with names, and none was chosen.
    #[error("the pool holds the layout \"store\", {}", Trees(names))]
    TreeNeeded {
        /// The names of the trees, sorted.
        names: Vec<String>,
    },
    /// The pool has no tree of this name.
    #[error("there is no tree \"{}\" in the pool, {}", escape(name), Trees(names))]
    NoTree {
        /// The name, which may be any bytes.
        name: Vec<u8>,
        /// The names of the trees, sorted.
        names: Vec<String>,
    },
    /// The pool has another layout than those of keys and values, so there is no way to copy it.
    #[error(
        "the pool holds the layout \"{layout}\", and pools of the layouts \"kv\" and \"store\" are copied; check the path"
    )]
    NotCopied {
        /// The layout of the pool.
        layout: LayoutName,
    },
    /// A tree with a name can't be read.
    #[error("the tree \"{}\": {error}", escape(name.as_bytes()))]
    InTree {
        /// The name of the tree.
        name: String,
        /// The error of the tree.
        #[source]
        error: Box<KvError>,
    },
    /// The pool has one tree, and a name was given.
    #[error("the pool holds the layout \"kv\", whose one tree has no name; give none")]
    NoNames,
    /// A line of the input can't be loaded.
    #[error("line {line}: {error}; correct it, or pass over such lines")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// The error of the line.
        error: LineError,
    },
    /// The input ends before the last line that an earlier load of it had begun.
    #[error(
        "the input ends after byte {end}, and an earlier load of it had begun lines up to byte {begun}; load all of it, \
         or, if it is another input, change a key first, which makes the pool forget the earlier one"
    )]
    InputTruncated {
        /// Length of the input in bytes.
        end: u64,
        /// Number of bytes of the input that the earlier load had begun.
        begun: u64,
    },
    /// A line was read, but the pool did not take it.
    #[error("line {line}: {error}")]
    Refused {
        /// Number of the line, from 1.
        line: u64,
        /// The error of the pool. If it leaves the line in doubt, lines of other threads without acknowledgement are
        /// in doubt, too.
        #[source]
        error: IndexError,
    },
    /// The system has no room for so many threads. Nothing was changed.
    #[error("the threads can't be started: {0}; load with fewer")]
    Threads(#[source] io::Error),
    /// The input could not be read.
    #[error("the input can't be read: {0}")]
    Input(#[source] io::Error),
    /// A key is durable, but its acknowledgement could not be delivered.
    #[error("the acknowledgement can't be written: {0}")]
    Acknowledge(#[source] io::Error),
}

/// Prints a number of keys that were found, and says if there may be more.
struct Found {
    found: u64,
    counted: u64,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.found > self.counted { " or more" } else { "" };
        write!(f, "{}{more}", self.found)
    }
}

/// Prints which trees a pool has.
struct Trees<'a>(&'a [String]);

impl fmt::Display for Trees<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, more) = self.0.split_at(self.0.len().min(TREES_SHOWN_MAX));
        if shown.is_empty() {
            return f.write_str("which has no trees yet; the program that made it makes them");
        }
        let shown: Vec<_> = shown.iter().map(|name| format!("\"{}\"", escape(name.as_bytes()))).collect();
        write!(f, "which has the trees {}", shown.join(", "))?;
        if !more.is_empty() {
            write!(f, " and {} others", more.len())?;
        }
        f.write_str("; choose one")
    }
}

impl KvError {
    /// Adds the name of the tree in which the error is.
    pub(crate) fn in_tree(self, name: &str) -> KvError {
        KvError::InTree { name: name.to_owned(), error: Box::new(self) }
    }

    /// Returns true for damage: something on the medium is not as it was written, or can't be read.
    pub fn is_damage(&self) -> bool {
        match self {
            KvError::Unproven(_) | KvError::Count { .. } | KvError::Load { .. } => true,
            KvError::Index(error) | KvError::Refused { error, .. } => error.is_damage(),
            KvError::Pool(error) => error.is_damage(),
            KvError::Follow(error) => error.is_damage(),
            KvError::InTree { error, .. } => error.is_damage(),
            _ => false,
        }
    }
}

impl From<FollowError> for KvError {
    fn from(error: FollowError) -> KvError {
        match error {
            FollowError::Open(error) => KvError::Pool(error),
            error => KvError::Follow(error),
        }
    }
}

impl From<HeapError> for KvError {
    fn from(error: HeapError) -> KvError {
        KvError::Index(error.into())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn trees_are_named_up_to_a_number() {
        let names = |count: usize| (0..count).map(|number| format!("tree\t{number}")).collect::<Vec<_>>();
        let text = |count| KvError::TreeNeeded { names: names(count) }.to_string();
        assert!(text(0).starts_with("the pool holds the layout \"store\", which has no trees yet; "));
        assert!(text(1).contains("which has the trees \"tree\\t0\"; choose"), "{}", text(1));
        assert!(text(TREES_SHOWN_MAX).contains("\"tree\\t18\", \"tree\\t19\"; choose"));
        assert!(text(TREES_SHOWN_MAX + 2).contains("\"tree\\t19\" and 2 others; choose"));
        let missing = KvError::NoTree { name: b"\xFF".to_vec(), names: names(0) };
        assert!(
            missing.to_string().starts_with("there is no tree \"\\xff\" in the pool, which has no trees yet")
        );
    }
}
