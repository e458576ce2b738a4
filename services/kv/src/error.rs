//! Errors of a store, and of the lines of a load.

use crate::STORE_SIZE_MIN;
use lode_follow::FollowError;
use lode_heap::{HeapError, OpenError};
use lode_index::IndexError;
use lode_layout::{KEY_LEN_MAX, PoolOffset};
use std::{fmt, io};

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

impl KvError {
    /// Returns true for damage: something on the medium is not as it was written, or can't be read.
    pub fn is_damage(&self) -> bool {
        match self {
            KvError::Unproven(_) | KvError::Count { .. } | KvError::Load { .. } => true,
            KvError::Index(error) | KvError::Refused { error, .. } => error.is_damage(),
            KvError::Pool(error) => error.is_damage(),
            KvError::Follow(error) => error.is_damage(),
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

/// Reason why a line can't be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// A backslash is followed by something that is no escape.
    #[error("the backslash at byte {at} begins none of \\t, \\n, \\\\, \\xHH")]
    Escape {
        /// Offset of the backslash, in bytes from the start of the line.
        at: usize,
    },
    /// The line is no JSON object of the expected form.
    #[error("no {{\"key\", \"value\"}} and no {{\"key_b64\", \"value_b64\"}}: {message} at byte {at}")]
    Json {
        /// The message of the JSON reader.
        message: String,
        /// Offset of the error, in bytes from the start of the line.
        at: usize,
    },
    /// A field that must be base64 is not.
    #[error("the field {field} is not base64")]
    Base64 {
        /// Name of the field.
        field: &'static str,
    },
    /// A field is present twice, plain and as base64, or missing.
    #[error("there must be one of the fields {field} and {field}_b64")]
    Fields {
        /// Name of the plain field.
        field: &'static str,
    },
    /// The key is too long.
    #[error("a key has at most {KEY_LEN_MAX} bytes, and this one has {len}")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The line is longer than any pair that the pool could hold.
    #[error("the line has more than {max} bytes, which the pool can't hold")]
    TooLong {
        /// Greatest length of a line, in bytes.
        max: u64,
    },
}
