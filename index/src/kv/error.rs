//! What can go wrong with a store, and with the lines of a load.

use crate::IndexError;
use crate::kv::STORE_SIZE_MIN;
use lode_heap::{HeapError, OpenError};
use lode_layout::{KEY_LEN_MAX, PoolOffset};
use std::{fmt, io};

/// Why something could not be done to a store.
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
        /// Its bytes.
        size: u64,
    },
    /// The tree, or the heap under it.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A key was not found, and damage may be why.
    #[error("the key is not found, which damage may be the reason of: {0}")]
    Unproven(#[source] IndexError),
    /// The tree leads to more or fewer keys than it has counted.
    #[error(
        "the tree leads to {} keys, and has counted {counted} of them at {at}: keys are lost, or the count is damaged; \
         `lode pool check` shows how far",
        Found { found: *found, counted: *counted }
    )]
    Count {
        /// The keys that it has counted.
        counted: u64,
        /// The keys to which it leads; one more than it has counted where there are more.
        found: u64,
        /// Where the count is.
        at: PoolOffset,
    },
    /// What is noted of a load is damaged.
    #[error("the note of the last load at {at} is damaged; `lode pool check` shows how far")]
    Load {
        /// Where it is.
        at: PoolOffset,
    },
    /// A line of the input can't be loaded.
    #[error("line {line}: {error}; correct it, or pass over such lines with --on-error skip")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        error: LineError,
    },
    /// The input ends between lines that an earlier load of it had begun.
    #[error(
        "the input ends after byte {end}, and an earlier load of it had begun lines up to byte {begun}; load all of it, \
         or, if it is another input, have the earlier one forgotten by any `lode kv put`"
    )]
    Cut {
        /// Bytes of the input.
        end: u64,
        /// Bytes of the input that the earlier load had begun.
        begun: u64,
    },
    /// A line was read, but the pool did not take it.
    #[error("line {line}: {error}")]
    Refused {
        /// Its number, from 1.
        line: u64,
        /// Why. When it is in doubt, so are lines of other threads that were not acknowledged.
        #[source]
        error: IndexError,
    },
    /// The system has no room for so many threads. Nothing is changed.
    #[error("the threads can't be started: {0}; load with fewer, as by --threads 1")]
    Threads(#[source] io::Error),
    /// The input could not be read.
    #[error("the input can't be read: {0}")]
    Input(#[source] io::Error),
    /// A key was durable, but whoever is to hear of it can't.
    #[error("the acknowledgement can't be written: {0}")]
    Acknowledge(#[source] io::Error),
}

/// Prints keys that were found, of which there may be more.
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
    /// Whether it tells of damage: of something on the medium that is not as it was written, or can't be read.
    pub fn is_damage(&self) -> bool {
        match self {
            KvError::Unproven(_) | KvError::Count { .. } | KvError::Load { .. } => true,
            KvError::Index(error) | KvError::Refused { error, .. } => error.is_damage(),
            KvError::Pool(error) => error.is_damage(),
            _ => false,
        }
    }
}

impl From<HeapError> for KvError {
    fn from(error: HeapError) -> KvError {
        KvError::Index(error.into())
    }
}

/// What is wrong with a line of a load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// A backslash is followed by something that is no escape.
    #[error("the backslash at byte {at} begins none of \\t, \\n, \\\\, \\xHH")]
    Escape {
        /// Where the backslash is, in bytes from the start of the line.
        at: usize,
    },
    /// The line is no JSON object of the expected form.
    #[error("no {{\"key\", \"value\"}} and no {{\"key_b64\", \"value_b64\"}}: {message} at byte {at}")]
    Json {
        /// What the JSON reader says.
        message: String,
        /// Where, in bytes from the start of the line.
        at: usize,
    },
    /// A field that is to be base64 is not.
    #[error("the field {field} is not base64")]
    Base64 {
        /// Its name.
        field: &'static str,
    },
    /// A field is there twice, plain and as base64, or not at all.
    #[error("there must be one of the fields {field} and {field}_b64")]
    Fields {
        /// The name of the plain one.
        field: &'static str,
    },
    /// The key is too long.
    #[error("a key has at most {KEY_LEN_MAX} bytes, and this one has {len}")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The line is longer than anything that could be in the pool.
    #[error("the line has more than {max} bytes, which the pool can't hold")]
    TooLong {
        /// The most that is read, in bytes.
        max: u64,
    },
}
