//! Errors of directories, and of the BTTs in them.

use crate::file::error::FileError;
use crate::machine::MachineError;
use lode_nvdimm::{BttDamage, InfoBlockError};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A directory can't be used, or its change was interrupted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The machine file can't be used.
    #[error("{}: {error}", path.display())]
    Machine {
        /// The file, or the name of the machine.
        path: PathBuf,
        /// The fault.
        #[source]
        error: MachineError,
    },
    /// The kernel refused an operation. Nothing was changed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The change is durable, but not all files have it: the next command completes it.
    #[error("{what} {}: {error}; the change is in the journal, the next command finishes it", path.display())]
    Interrupted {
        /// The operation.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        error: io::Error,
    },
    /// The directory does not hold the state of a platform.
    #[error("{} holds no platform; make one", path.display())]
    NoState {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is not empty.
    #[error("{} is not empty; choose another directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Another command uses the directory.
    #[error("{} is in use by another command; try again", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A newer program made the directory.
    #[error(
        "{} has format {found}, made by a newer program; this one knows formats up to {known}",
        path.display()
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest known version.
        known: u32,
    },
    /// A file of the directory is not one that this program wrote.
    #[error("{} was changed by another program: {message}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Message of the parser.
        message: String,
    },
}

/// The BTT of a namespace is missing or damaged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BttError {
    /// The namespace has no BTT.
    #[error("{name} has no atomic sectors, or the block that tells of them is not sound")]
    NoSectors {
        /// Its name.
        name: String,
    },
    /// The first info block of an arena is damaged.
    #[error("{name}, arena {arena}: {error}")]
    ArenaInfo {
        /// The namespace.
        name: String,
        /// The number of the arena, from 0.
        arena: u64,
        /// The damage.
        #[source]
        error: InfoBlockError,
    },
    /// An arena extends past the end of its namespace.
    #[error("{name}, arena {arena}: it is longer than the namespace")]
    ArenaEnd {
        /// The namespace.
        name: String,
        /// The number of the arena, from 0.
        arena: u64,
    },
    /// The info block at the end of an arena differs from the one at its start.
    #[error("{name}, arena {arena}: the info blocks at its start and its end differ")]
    ArenaCopies {
        /// The namespace.
        name: String,
        /// The number of the arena, from 0.
        arena: u64,
    },
    /// The map or the flog of an arena is damaged.
    #[error("{name}, arena {arena}: {error}")]
    Arena {
        /// The namespace.
        name: String,
        /// The number of the arena, from 0.
        arena: u64,
        /// The damage.
        #[source]
        error: BttDamage,
    },
}
