//! The errors of append logs.

use lode_layout::{LogDescriptorError, LogStateError, PoolOffset};
use lode_pmem::{Fault, SyncError};
use lode_redo::LogError;

/// A part of a pool that is not as a writer left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A copy of the descriptor can't be used.
    #[error("the descriptor at {at} can't be used: {error}")]
    Descriptor {
        /// Offset of the copy.
        at: PoolOffset,
        /// The reason.
        error: LogDescriptorError,
    },
    /// The two copies of the descriptor are valid and differ.
    #[error("the descriptor at {at} differs from its first copy")]
    DescriptorDiffers {
        /// Offset of the second copy.
        at: PoolOffset,
    },
    /// A copy of the state can't be used.
    #[error("the state at {at} can't be used: {error}")]
    State {
        /// Offset of the copy.
        at: PoolOffset,
        /// The reason.
        error: LogStateError,
    },
    /// The two copies of the state are valid and differ.
    #[error("the state at {at} differs from its first copy")]
    StateDiffers {
        /// Offset of the second copy.
        at: PoolOffset,
    },
    /// Records that were durable are not what was appended.
    #[error("{len} bytes of records from position {position}, at {at}, are not what was appended")]
    Records {
        /// Position of the first byte.
        position: u64,
        /// Length in bytes, up to the next intact record or to the end of the log.
        len: u64,
        /// Offset of the first byte in the pool.
        at: PoolOffset,
    },
    /// A record of the redo log changes something that is no state.
    #[error("a record of the redo log changes {len} bytes at {at}, which is no state of the log")]
    RedoRecord {
        /// Offset of the range.
        at: PoolOffset,
        /// Length of the range in bytes.
        len: u64,
    },
    /// Memory can't be read.
    #[error(transparent)]
    Memory(#[from] Fault),
    /// The redo log is damaged.
    #[error(transparent)]
    Redo(LogError),
}

/// The reason why the outcome of an operation is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InDoubtCause {
    /// A drain failed.
    #[error("it may or may not be there after reopening: {0}")]
    Drain(SyncError),
    /// A part of it could not be stored.
    #[error("it may or may not be there after reopening: {0}")]
    Memory(Fault),
    /// An append before it is in doubt.
    #[error("it may or may not be there after reopening: an append before it is in doubt")]
    Earlier,
    /// The change of the state is in doubt.
    #[error(transparent)]
    State(lode_redo::InDoubtCause),
}

/// The reason why an operation on a log failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendLogError {
    /// The pool is damaged, or records are. Other records can be read as long as the pool is open.
    #[error("{0}; restore it from a copy")]
    Damaged(Damage),
    /// The pool has no room for a log.
    #[error("a pool of {size} bytes has no room for a log; make it larger")]
    NoRoom {
        /// Size of the pool in bytes.
        size: u64,
    },
    /// The log has no room. Nothing was appended.
    #[error("the log is full: the append needs {need} bytes, {free} are free; truncate the log")]
    Full {
        /// Bytes that the append takes.
        need: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The records of one call are too long. Nothing was appended.
    #[error("the records take {len} bytes, and one append at most {max}; append less at a time")]
    TooLong {
        /// Bytes that the records take.
        len: u64,
        /// Most bytes of one append.
        max: u64,
    },
    /// No record begins at the position.
    #[error("no record begins at position {position}; use a position that an append or a walk returned")]
    NoRecord {
        /// The position.
        position: u64,
    },
    /// The record was dropped by a truncation.
    #[error("the record at position {position} was dropped: the log begins at {head}")]
    Dropped {
        /// The position.
        position: u64,
        /// Position of the first live record.
        head: u64,
    },
    /// Memory that was needed is lost. Nothing was appended.
    #[error(transparent)]
    Memory(#[from] Fault),
    /// The operation may or may not have happened when the pool is opened again. This handle accepts no more changes.
    #[error("the operation is in doubt: {0}")]
    InDoubt(InDoubtCause),
    /// An earlier operation is in doubt. Nothing was changed.
    #[error(
        "an earlier operation is in doubt, so this handle accepts no more changes; close the pool and open it again"
    )]
    Poisoned,
    /// The pool was opened for reading. Nothing was changed.
    #[error("the pool was opened for reading; open it for writing")]
    ReadOnly,
    /// The pool was opened for writing 2^32 times.
    #[error("the log was opened for writing too often; copy its records to another pool")]
    Epochs,
}

impl From<LogError> for Damage {
    fn from(error: LogError) -> Damage {
        match error {
            LogError::Fault(fault) => Damage::Memory(fault),
            error => Damage::Redo(error),
        }
    }
}

impl From<Damage> for AppendLogError {
    fn from(damage: Damage) -> AppendLogError {
        match damage {
            Damage::Memory(fault) => AppendLogError::Memory(fault),
            damage => AppendLogError::Damaged(damage),
        }
    }
}

impl From<LogError> for AppendLogError {
    fn from(error: LogError) -> AppendLogError {
        match error {
            LogError::InDoubt(cause) => AppendLogError::InDoubt(InDoubtCause::State(cause)),
            LogError::Poisoned => AppendLogError::Poisoned,
            LogError::ReadOnly => AppendLogError::ReadOnly,
            LogError::Fault(fault) => AppendLogError::Memory(fault),
            error @ LogError::Corrupt { .. } => AppendLogError::Damaged(Damage::Redo(error)),
        }
    }
}
