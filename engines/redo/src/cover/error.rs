//! The errors of covered memory.

use crate::LogError;
use lode_pmem::Fault;

/// The reason why an operation on covered memory failed. A commit that fails aborts its transaction; after an error of the log the next
/// open decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoverError {
    /// The transaction would not fit into one record, or the open transactions have too many units for the log.
    #[error(
        "the open transactions change too much for the log: {needed} bytes are needed where {room} are left; commit or \
         abort some of them, or use a longer log"
    )]
    TooLarge {
        /// Bytes of the log that are needed.
        needed: u64,
        /// Bytes of the log that are left.
        room: u64,
    },
    /// The log is so short that a record can't hold a unit.
    #[error("a log of {len} bytes is too short for units of {unit} bytes; make it longer")]
    LogTooShort {
        /// Length of the log in bytes.
        len: u64,
        /// Length of a unit in bytes.
        unit: u64,
    },
    /// So many transactions are open that there is no place for another one.
    #[error("{open} transactions are open, and there are no more places; end one of them")]
    TooManyOpen {
        /// Number of open transactions.
        open: usize,
    },
    /// A range does not lie in the memory that programs may store to.
    #[error(
        "{len} bytes at {at:#x} are not in the part of the pool that programs store to, from {start:#x} to {end:#x}, without \
         the log from {log_start:#x} to {log_end:#x}; give a range of it"
    )]
    OutOfRange {
        /// Offset of the first byte.
        at: u64,
        /// Length in bytes.
        len: u64,
        /// Offset of the first byte that programs may store to.
        start: u64,
        /// Offset of the end of the pool.
        end: u64,
        /// Offset of the first byte of the log.
        log_start: u64,
        /// Offset of the end of the log.
        log_end: u64,
    },
    /// An error of the log.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl From<Fault> for CoverError {
    fn from(fault: Fault) -> CoverError {
        CoverError::Log(LogError::Fault(fault))
    }
}
