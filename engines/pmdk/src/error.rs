//! Errors of pools of PMDK.

use crate::set_file::SetFileError;
use lode_layout::{PmdkFeatures, PmdkHeaderError, PmdkKind, PmdkPartHeader};
use lode_pmem::{Fault, LockHolder, PmemError, SyncError};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a pool of PMDK could not be made, opened or closed. Each names the file that it is about, and begins with PMDK's
/// words where PMDK has some: programs look for them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmdkError {
    /// The kernel refused a call.
    #[error("{op} \"{}\": {}", .path.display(), words_of(*.errno))]
    Io {
        /// The system call.
        op: &'static str,
        /// The file of the call.
        path: PathBuf,
        /// The error number.
        errno: i32,
    },
    /// The space of a part can't be allocated.
    #[error(
        "posix_fallocate \"{}\", {size}: {}; choose a smaller size, or free space", .path.display(), words_of(*.errno)
    )]
    Allocate {
        /// The part.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// The error number.
        errno: i32,
    },
    /// No file can have so many bytes.
    #[error("invalid size ({size}) for os_off_t: {}; choose a smaller one", .path.display())]
    InvalidSize {
        /// The part.
        path: PathBuf,
        /// Its bytes.
        size: u64,
    },
    /// The text of the set file breaks a rule.
    #[error("{}", .error.of_file(.path))]
    SetFile {
        /// The set file.
        path: PathBuf,
        /// The line, and its fault.
        #[source]
        error: SetFileError,
    },
    /// The set file is sound, and describes no pool that can be.
    #[error("{error}; the pool set is {}", .path.display())]
    Set {
        /// The set file.
        path: PathBuf,
        /// The rule that the set breaks.
        #[source]
        error: SetError,
    },
    /// Another handle has the part open.
    #[error(
        "flock \"{}\": Resource temporarily unavailable: {}; close the pool there first", .path.display(),
        .holder.as_ref().map_or_else(|| "another process has it open".to_owned(), |holder| format!("it is open in {holder}"))
    )]
    InUse {
        /// The part.
        path: PathBuf,
        /// The process that has it open, if it is known.
        holder: Option<LockHolder>,
    },
    /// The header of a part can't be used.
    #[error("{}; {}: {error}", pmdk_words(.error), .path.display())]
    Header {
        /// The part.
        path: PathBuf,
        /// The reason.
        #[source]
        error: PmdkHeaderError,
    },
    /// The pool belongs to another library.
    #[error(
        "wrong pool type: \"{}\"; {} is to be a pool of type {}: open it with the library of its type", word(*.found),
        .path.display(), word(*.want)
    )]
    Kind {
        /// The part.
        path: PathBuf,
        /// The kind that was asked for.
        want: PmdkKind,
        /// The kind of the pool.
        found: PmdkKind,
    },
    /// The headers of the parts do not fit together.
    #[error("{fault}; the part is {}", .path.display())]
    Chain {
        /// The first part that does not fit.
        path: PathBuf,
        /// The rule that it breaks.
        fault: ChainFault,
    },
    /// The file has another size than the set file says.
    #[error(
        "file size does not match config: {}, {found} != {want}; write its size of {found} bytes into the set file, or \
         restore the file", .path.display()
    )]
    PartSize {
        /// The part.
        path: PathBuf,
        /// The size of the set file, in bytes.
        want: u64,
        /// The size of the file.
        found: u64,
    },
    /// The part is too small for any pool.
    #[error(
        "size {found} smaller than {min}, the least that a part can have: {} is none; give it a larger size", .path.display()
    )]
    PartTooSmall {
        /// The part.
        path: PathBuf,
        /// Its size in bytes.
        found: u64,
        /// The least size.
        min: u64,
    },
    /// The pool is too small for its kind.
    #[error(
        "net pool size {found} smaller than {min}, the least for this kind of pool: {}; make it larger, or add parts",
        .path.display()
    )]
    TooSmall {
        /// The set file or file.
        path: PathBuf,
        /// The net size in bytes.
        found: u64,
        /// The least size.
        min: u64,
    },
    /// A new pool would reserve fewer bytes than its kind needs.
    #[error(
        "reservation pool size {found} smaller than {min}, the least for this kind of pool: {}; choose a larger one",
        .path.display()
    )]
    ReservedTooLittle {
        /// The set file or file.
        path: PathBuf,
        /// The bytes that are reserved.
        found: u64,
        /// The least size.
        min: u64,
    },
    /// The file that is to become a pool is too small for its kind.
    #[error(
        "file is not a poolset file and its size ({found}) is smaller than {min}: {}; give it that size", .path.display()
    )]
    FileTooSmall {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        found: u64,
        /// The least size.
        min: u64,
    },
    /// The path names a character device that is no device-DAX node.
    #[error("{} is not device DAX; a pool is a file, or a device-DAX node", .path.display())]
    NotDax {
        /// The path.
        path: PathBuf,
    },
    /// The path names a folder.
    #[error("stat \"{}\": negative size: it is a folder; name a file in it", .path.display())]
    Folder {
        /// The path.
        path: PathBuf,
    },
    /// The path names a file of a kind that holds no pool.
    #[error(
        "file type 0{:o} not supported: {}; a pool is a file, or a device-DAX node", .mode & 0o170_000, .path.display()
    )]
    FileType {
        /// The path.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// A new pool was to be made where something is.
    #[error("file {} already exists; choose another name, or remove it", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A new pool was to be made of a part that is in use.
    #[error(
        "Non-empty file detected: {}: the first 4096 bytes of a part of a new pool must be zeros; clear them, or choose \
         another file", .path.display()
    )]
    NotEmpty {
        /// The part.
        path: PathBuf,
    },
    /// A new pool was to have features that are unknown, or a shutdown state without a short checksum.
    #[error(
        "{}: no pool can have the features compat {:#x}, incompat {:#x}, ro_compat {:#x}: take known ones, and the shutdown \
         state (incompat 4) only with the short checksum (2)", .path.display(), .features.compat, .features.incompat,
        .features.ro_compat
    )]
    Features {
        /// The set file or file.
        path: PathBuf,
        /// The features.
        features: PmdkFeatures,
    },
    /// Memory of a part is lost.
    #[error(
        "pool set contains bad blocks and cannot be {}; {}: {count} ranges are lost, the first at byte {first}; restore the \
         part from a backup or a replica", words_of_bad_blocks(.opened.as_deref()), .path.display()
    )]
    BadBlocks {
        /// The part.
        path: PathBuf,
        /// Number of lost ranges.
        count: usize,
        /// Offset of the first in the file.
        first: u64,
        /// The set file, or the only part, of the pool; `None` if the pool was to be made.
        opened: Option<PathBuf>,
    },
    /// PMDK was stopped while it repaired bad blocks.
    #[error(
        "error: a bad block recovery file exists, run 'pmempool sync --bad-blocks' utility to try to recover the pool; the \
         file is {}", .path.display()
    )]
    RecoveryFile {
        /// The file.
        path: PathBuf,
    },
    /// The rest of an interrupted change of the set does not fit its parts.
    #[error(
        "the change of {} was interrupted, and its parts have changed since: {what}; restore them, or remove that file",
        .path.display()
    )]
    ChangedSince {
        /// The file that describes the change.
        path: PathBuf,
        /// The part that does not fit.
        what: String,
    },
    /// The modules lost power with stores in flight while the pool was open, or the pool was moved while it was open.
    #[error(
        "an ADR failure was detected, the pool might be corrupted: {} was open when its modules lost power with stores in \
         flight, or was moved to other modules; run 'pmempool check --repair', or restore it from a copy", .path.display()
    )]
    UnsafeShutdown {
        /// The first part of the replica.
        path: PathBuf,
    },
    /// The part can't be mapped.
    #[error(transparent)]
    Medium(#[from] PmemError),
    /// Memory that was needed is lost.
    #[error("{}: {fault}", .path.display())]
    Memory {
        /// The set file or file.
        path: PathBuf,
        /// The range, and the reason.
        #[source]
        fault: Fault,
    },
    /// A sync failed: what was being written is in doubt.
    #[error("{}: {error}; look for errors of the device in the kernel's log, then open the pool again", .path.display())]
    Drain {
        /// The set file or file.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        error: SyncError,
    },
    /// A test stopped the creation here, as a kill does.
    #[cfg(feature = "explore")]
    #[error("stopped by a test")]
    Stopped,
}

/// Rules of pool sets that concern more than one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// The set has replicas, and pools of this kind have none.
    #[error("replication not supported: only pools of objects have replicas; remove the REPLICA lines")]
    Replication,
    /// The pool has replicas, and pools of this kind have none.
    #[error(
        "replicas not supported: Operation not supported; only pools of objects have replicas, open it with the program that made it"
    )]
    Replicas,
    /// The option NOHDRS.
    #[error("the NOHDRS poolset option is not supported for local poolsets; remove it")]
    NoHeaders,
    /// Folders and files in one set.
    #[error("cannot mix directories and files in a set; name only the ones or the others")]
    Mixed,
    /// A folder that is named twice.
    #[error("cannot use the same directory twice: {}", .0.display())]
    DirectoryTwice(PathBuf),
    /// Folders without SINGLEHDR.
    #[error(
        "directory based pools are not supported for poolsets with headers (without SINGLEHDR option); add OPTION SINGLEHDR"
    )]
    DirectoryHeaders,
    /// A file that is named twice, perhaps by two paths.
    #[error(
        "flock \"{}\": Resource temporarily unavailable: it is a part twice, and each part must be a file of its own", .0.display()
    )]
    PartTwice(PathBuf),
    /// Device-DAX nodes and files in one replica.
    #[error("either all the parts must be Device DAX or none; put nodes and files into separate replicas")]
    DevicesMixed,
    /// Several device-DAX nodes with pages that are too large to leave a header out.
    #[error("Multiple DAX devices with alignment other than 4KB. Use the SINGLEHDR poolset option.")]
    DeviceAlignment,
    /// AUTO for a file.
    #[error("cannot determine size of a part: {}: AUTO is for device-DAX nodes; write the size of the file", .0.display())]
    AutoSize(PathBuf),
    /// The folders of the set hold no part.
    #[error("no parts in replicas: No such file or directory; no file NNNNNN.pmem is in {}", .0.display())]
    Empty(PathBuf),
    /// A file in a folder whose name is that of a part, and has no number.
    #[error("{} has the name of a part without its number: NNNNNN.pmem; rename it, or move it away", .0.display())]
    OddName(PathBuf),
    /// Device-DAX nodes of which no private view can be made.
    #[error("device dax cannot be mapped privately; open the pool for writing, or copy it to a file")]
    PrivateDevices,
    /// A part in the middle is missing.
    #[error("part {index} is missing in {}; restore it", .directory.display())]
    Missing {
        /// Number of the part.
        index: usize,
        /// A folder in which it may be.
        directory: PathBuf,
    },
    /// The folders have no room for another part.
    #[error(
        "exceeded reservation size; {left} bytes of the directories' sizes are left: write a larger one in the set file"
    )]
    Exhausted {
        /// Bytes that are left.
        left: u64,
    },
    /// A replica has more bytes than the pool, and they are not those of whole parts.
    #[error(
        "a replica has {more} bytes more than the pool, which end inside of a part; make its parts anew with pmempool sync"
    )]
    Uneven {
        /// Bytes after the end of the pool.
        more: u64,
    },
    /// The parts of a folder have become larger than the set file reserves.
    #[error(
        "pool mapping failed - address space reservation too small: {need} bytes of parts, {reserved} in the set file; write a larger size there"
    )]
    Reservation {
        /// Bytes of all parts.
        need: u64,
        /// Bytes in the set file.
        reserved: u64,
    },
    /// The sizes of the parts are more than 2^64 - 1 bytes together.
    #[error("the parts are too large together: more than 2^64 - 1 bytes; write smaller sizes")]
    TooLarge,
}

/// Rules between the headers of a pool set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainFault {
    /// A part of another pool.
    #[error(
        "wrong pool set UUID: the part belongs to another pool than the first part; give the parts of one pool"
    )]
    PoolSet,
    /// The parts are in another order, or one is left out, or from another replica.
    #[error(
        "wrong part UUID: the parts of the set file are not those of the pool, in their order; write them as at the creation"
    )]
    Part,
    /// The replicas are in another order, or one is left out.
    #[error(
        "wrong replica UUID: the replicas of the set file are not those of the pool, in their order; write them as at the creation"
    )]
    Replica,
    /// A part whose features differ from those of the first part.
    #[error(
        "incompatible feature flags: they are not those of the first part; set them alike by 'pmempool feature'"
    )]
    Features,
    /// SINGLEHDR in the set file, and not in the pool, or the other way round.
    #[error(
        "poolset file options ({}) do not match incompat feature flags ({incompat:#x}): the pool was made {} OPTION \
         SINGLEHDR; change the set file so",
        u32::from(!has_single_header(*.incompat)), if has_single_header(*.incompat) { "with" } else { "without" }
    )]
    SingleHeader {
        /// The features of the pool.
        incompat: u32,
    },
}

/// Returns true if the pool has one header a replica.
fn has_single_header(incompat: u32) -> bool {
    incompat & PmdkFeatures::SINGLE_HEADER != 0
}

/// Returns what PMDK advises where memory is lost.
fn words_of_bad_blocks(opened: Option<&Path>) -> String {
    match opened {
        None => {
            "created, run 'pmempool create --clear-bad-blocks' utility to clear bad blocks and create a pool"
                .to_owned()
        }
        Some(pool) => {
            let advice = "opened, run 'pmempool sync --bad-blocks' utility to try to recover the pool";
            format!("{advice} -- '{}'", pool.display())
        }
    }
}

/// Returns PMDK's words for a header that can't be used: programs look for them.
fn pmdk_words(error: &PmdkHeaderError) -> String {
    match error {
        PmdkHeaderError::Version { major: 0, .. } => "invalid major version (0)".to_owned(),
        PmdkHeaderError::NotAPool { found: PmdkPartHeader::UNSIGNED } => {
            "the creation of the pool was interrupted; create it again".to_owned()
        }
        PmdkHeaderError::NotAPool { found } => {
            // PMDK prints the bytes up to a zero.
            let end = found.iter().position(|byte| *byte == 0).unwrap_or(found.len());
            format!("wrong pool type: \"{}\"", String::from_utf8_lossy(&found[..end]))
        }
        PmdkHeaderError::Version { major, known } if major < known => {
            "Please run the pmdk-convert utility to upgrade the pool.".to_owned()
        }
        PmdkHeaderError::Version { major, known } => {
            // PMDK prints a signed number.
            format!("pool version {} (library expects {known})", major.cast_signed())
        }
        PmdkHeaderError::Features { incompat, .. } => {
            format!("unsafe to continue due to unknown incompat features: {incompat:#x}")
        }
        PmdkHeaderError::Checksum { .. } => "invalid checksum of pool header".to_owned(),
        PmdkHeaderError::Field(_) => "wrong architecture flags".to_owned(),
        _ => "the pool can't be used".to_owned(),
    }
}

fn word(kind: PmdkKind) -> &'static str {
    match kind {
        PmdkKind::Objects => "PMEMOBJ",
        PmdkKind::Blocks => "PMEMBLK",
        PmdkKind::Log => "PMEMLOG",
    }
}

impl PmdkError {
    /// Returns true if the pool is damaged, and not only used wrongly.
    pub fn is_damage(&self) -> bool {
        match self {
            PmdkError::Header { error, .. } => {
                matches!(error, PmdkHeaderError::Checksum { .. } | PmdkHeaderError::Field(_))
            }
            PmdkError::BadBlocks { opened, .. } => opened.is_some(),
            PmdkError::UnsafeShutdown { .. } | PmdkError::Memory { .. } | PmdkError::RecoveryFile { .. } => {
                true
            }
            _ => false,
        }
    }

    /// Returns a function that makes an error of a refused call.
    pub(crate) fn io(op: &'static str, path: &Path) -> impl Fn(io::Error) -> PmdkError {
        // Errors of the standard library alone have no number, such as a write of no bytes.
        let number = |error: io::Error| error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        move |error| PmdkError::Io { op, path: path.to_owned(), errno: number(error) }
    }

    pub(crate) fn allocate(path: &Path, size: u64) -> impl Fn(io::Error) -> PmdkError {
        move |error| {
            let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            PmdkError::Allocate { path: path.to_owned(), size, errno }
        }
    }

    pub(crate) fn errno(op: &'static str, path: &Path) -> impl Fn(Errno) -> PmdkError {
        move |errno| PmdkError::Io { op, path: path.to_owned(), errno: errno.raw_os_error() }
    }

    pub(crate) fn set(path: &Path) -> impl Fn(SetError) -> PmdkError {
        move |error| PmdkError::Set { path: path.to_owned(), error }
    }

    pub(crate) fn drain(path: &Path) -> impl Fn(SyncError) -> PmdkError {
        move |error| PmdkError::Drain { path: path.to_owned(), error }
    }

    pub(crate) fn memory(path: &Path) -> impl Fn(Fault) -> PmdkError {
        move |fault| PmdkError::Memory { path: path.to_owned(), fault }
    }
}

/// Returns the C library's words for an error number.
fn words_of(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
