//! The errors of a log.

use lode_layout::PoolOffset;
use lode_pmem::{Fault, SyncError};

/// The reason why the outcome of a transaction is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InDoubtCause {
    /// Its log write failed: its record may or may not be on the medium.
    #[error("it may or may not be there after reopening: {0}")]
    Log(SyncError),
    /// Its record is durable, and memory that it changes is lost. Opening the pool repeats its stores, and fails
    /// while that memory is lost. A repair of the pool keeps all of the transaction except what lies there.
    #[error(
        "its record is durable, and memory that it changes is lost: {0}; close the pool and open it again, and \
         repair it if that fails"
    )]
    WriteBack(Fault),
    /// Its record is durable, and the log failed before its words were settled: the next open stores them again.
    #[error("its record is durable, and the log failed after that; close the pool and open it again")]
    Unsettled,
}

/// The reason why an operation on a log failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The record may or may not be there when the log is opened again. This handle accepts no more records.
    #[error("the transaction is in doubt: {0}")]
    InDoubt(InDoubtCause),
    /// An earlier sync failed; this handle writes no more. Records that were acknowledged before are safe.
    #[error(
        "an earlier sync failed, so this handle accepts no more changes; close the pool and open it again"
    )]
    Poisoned,
    /// The medium must not be changed.
    #[error(
        "the pool was opened for reading, and the transaction would change it; open the pool for writing"
    )]
    ReadOnly,
    /// The memory or the medium could not deliver bytes that were needed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The medium holds a value that can't be right.
    #[error("{what} at {at} is damaged")]
    Corrupt {
        /// The structure that is damaged.
        what: &'static str,
        /// Offset of its first byte.
        at: PoolOffset,
    },
}

impl From<SyncError> for LogError {
    fn from(error: SyncError) -> LogError {
        LogError::InDoubt(InDoubtCause::Log(error))
    }
}
