//! Errors of directories, and of the BTTs in them.

use crate::dax::DeviceId;
use crate::file::error::FileError;
use crate::machine::{Handle, MachineError};
use lode_nvdimm::{BttDamage, InfoBlockError};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;
use uuid::Uuid;

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
    /// Another command used the directory for the whole time that this one waited.
    #[error(
        "{} is in use by another command{}; try again, or wait longer",
        path.display(),
        if waited.is_zero() { String::new() } else { format!(", and was so for {waited:?}") }
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Time that this command waited.
        waited: Duration,
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
    /// The state does not fit the machine: one of the two was edited.
    #[error(
        "{}{}: {fault}; undo the edit of this file or of {}, or make the machine anew in another directory",
        path.display(),
        line.map_or(String::new(), |line| format!(", line {line}")),
        machine.display()
    )]
    Invalid {
        /// The file of the state.
        path: PathBuf,
        /// The file of the machine.
        machine: PathBuf,
        /// Line of the wrong entry, from 1.
        line: Option<usize>,
        /// The fault.
        #[source]
        fault: StateFault,
    },
    /// A file of the directory is not one that this program wrote.
    #[error(
        "{}, line {line}: {message}; undo the edit, or make the machine anew in another directory",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Message of the parser.
        message: String,
    },
}

/// A state that its machine can't have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StateFault {
    /// The machine lacks the module.
    #[error("the machine has no module {module}")]
    UnknownModule {
        /// The module.
        module: Handle,
    },
    /// A second entry names the same module.
    #[error("module {module} is named twice: each module has one entry")]
    SecondEntry {
        /// The module.
        module: Handle,
    },
    /// A second entry names the same namespace.
    #[error("the namespace {uuid} is named twice: each namespace has one entry")]
    SecondNamespace {
        /// The namespace.
        uuid: Uuid,
    },
    /// The record of a move is damaged.
    #[error("the move of the namespace {uuid} can't be: {why}")]
    Move {
        /// The namespace.
        uuid: Uuid,
        /// The fault.
        why: &'static str,
    },
    /// A second entry names the same character device.
    #[error("{device} is named twice: each device has one entry")]
    SecondDevice {
        /// The device.
        device: DeviceId,
    },
    /// CXL memory can't be so.
    #[error("the CXL memory can't be so: {why}")]
    Cxl {
        /// The reason.
        why: &'static str,
    },
    /// A character device can't have these values.
    #[error("{device} can't be so: {why}")]
    Device {
        /// The device.
        device: DeviceId,
        /// The reason.
        why: &'static str,
    },
    /// The module has no partition.
    #[error("module {module} is not configured: it has no partition")]
    NotConfigured {
        /// The module.
        module: Handle,
    },
    /// The uses of a module are larger than the module.
    #[error("module {module} can't give {used} B: firmware leaves {usable} B of it")]
    TooLarge {
        /// The module.
        module: Handle,
        /// Sum of memory, reserve and shares, in bytes.
        used: u64,
        /// Capacity without the part of firmware, in bytes.
        usable: u64,
    },
    /// A module without a passphrase is locked or frozen.
    #[error("module {module} can't be locked or frozen: it has no user passphrase")]
    NoPassphrase {
        /// The module.
        module: Handle,
    },
    /// A module counted more wrong passphrases than it takes.
    #[error("module {module} can't count more than {most} wrong passphrases")]
    Tries {
        /// The module.
        module: Handle,
        /// Largest count.
        most: u32,
    },
    /// A value of SMART is out of range.
    #[error("module {module} can't report such values: temperatures are -2047 to 2047, shares 0 to 100")]
    Smart {
        /// The module.
        module: Handle,
    },
    /// An entry of an error log is not one that the module can have.
    #[error(
        "module {module} can't have this entry in an error log: numbers follow one another from 1 to 65535, a log has 255 entries at most, \
         and ranges are powers of two on the module"
    )]
    ErrorLog {
        /// The module.
        module: Handle,
    },
    /// Firmware does not interleave over this number of modules.
    #[error("a set can't have {ways} modules: it has 1, 2, 3, 4, 6, 8, 12 or 16")]
    Ways {
        /// Number of modules.
        ways: usize,
    },
    /// The share is not a number of interleave lines.
    #[error("a share can't be {share} B: it is a multiple of 4096 B, and not 0")]
    Share {
        /// The share, in bytes.
        share: u64,
    },
    /// The modules of a set are on different sockets.
    #[error("module {module} can't be in a set with {first}: the modules of a set are on one socket")]
    OtherSocket {
        /// The module.
        module: Handle,
        /// The first module of the set.
        first: Handle,
    },
    /// A range extends past the media that it can be on.
    #[error("{len} B at {off} of module {module} are outside of its media for them, {from} to {to}")]
    Outside {
        /// The module.
        module: Handle,
        /// Offset of the range on the media, in bytes.
        off: u64,
        /// Its length in bytes.
        len: u64,
        /// First byte that it can have.
        from: u64,
        /// End of the bytes that it can have.
        to: u64,
    },
    /// Two shares of a module overlap.
    #[error("two shares of module {module} overlap at {off}")]
    Overlap {
        /// The module.
        module: Handle,
        /// Offset of the second share on the media, in bytes.
        off: u64,
    },
    /// A goal has too many shares.
    #[error("the goal of module {module} can't have more than {most} shares")]
    Shares {
        /// The module.
        module: Handle,
        /// Largest number of shares.
        most: usize,
    },
    /// Goals for the same set differ.
    #[error(
        "the goals of {module} and {other} differ in set {set}: its modules are on one socket, with equal shares"
    )]
    UnequalShares {
        /// The module.
        module: Handle,
        /// The other module.
        other: Handle,
        /// Number of the set.
        set: u32,
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
