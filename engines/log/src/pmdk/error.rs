//! The errors of PMDK's log pools.

use crate::error::InDoubtCause;
use lode_layout::{InvalidField, PmdkHeaderError, PmdkKind};
use lode_pmem::{Fault, SyncError};

/// The reason why an operation on a log pool of PMDK failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PmemLogError {
    /// The header can't be used, or there is none.
    #[error("the header of the log pool can't be used: {0}")]
    Header(PmdkHeaderError),
    /// The pool belongs to another library.
    #[error("the pool of PMDK holds {}, no log; open it with the program that made it", name(*.0))]
    Kind(PmdkKind),
    /// The pool was open on modules of persistent memory when its process ended.
    #[error(
        "the pool was open on modules of persistent memory in a crash, and only PMDK knows whether they lost stores; run \
         `pmempool check --repair`"
    )]
    OpenInCrash,
    /// The descriptor breaks a rule.
    #[error(
        "the descriptor of the log pool is damaged: {0}; restore the pool from a copy, or run `pmempool check --repair`"
    )]
    Descriptor(InvalidField),
    /// A pool of this size can't be made.
    #[error("can't make a log pool of PMDK: {0}; choose another size")]
    Plan(InvalidField),
    /// The log has no room. Nothing was appended.
    #[error("the log is full: the append needs {need} bytes, {free} are free; rewind the log")]
    Full {
        /// Bytes that the append takes.
        need: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The bytes that were to be read were dropped.
    #[error("the log was rewound while it was read; read it from its start")]
    Rewound,
    /// Memory that was needed is lost. Nothing was changed.
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
}

fn name(kind: PmdkKind) -> &'static str {
    match kind {
        PmdkKind::Objects => "objects",
        PmdkKind::Blocks => "blocks",
        PmdkKind::Log => "a log",
    }
}

impl PmemLogError {
    /// Returns true if the pool is damaged.
    pub fn is_damage(&self) -> bool {
        match self {
            PmemLogError::Header(error) => {
                matches!(error, PmdkHeaderError::Checksum { .. } | PmdkHeaderError::Field(_))
            }
            PmemLogError::Descriptor(_) | PmemLogError::Memory(_) | PmemLogError::OpenInCrash => true,
            _ => false,
        }
    }
}

impl From<SyncError> for PmemLogError {
    fn from(error: SyncError) -> PmemLogError {
        PmemLogError::InDoubt(InDoubtCause::Drain(error))
    }
}
