//! Errors of pools.

use crate::{DirtyShutdown, HeaderCopy, HeaderCopyError, LockHolder};
use lode_layout::{Durability, GeometryError, HeaderError, LayoutName, header};
use lode_pmem::{DurabilityReport, Fault, PmemError, SyncError};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The last step when no copy of the header is whole.
const NO_COPY_LEFT: &str = "no copy is left to repair from: restore the pool from a backup";
/// The next step after a failed sync.
const REOPEN: &str = "look for errors of the device in the kernel's log, then reopen the pool";

/// The reason why an operation on a pool failed. The message ends with the next step for the user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The error of the pool at `path`: every error of a function that takes a path is wrapped in this one.
    #[error("{}: {error}", .path.display())]
    At {
        /// The file or device.
        path: PathBuf,
        /// The error itself.
        #[source]
        error: Box<PoolError>,
    },
    /// Neither copy of the header can be used.
    #[error("{}", header_errors(.a, .b))]
    Headers {
        /// Fault of copy A.
        #[source]
        a: HeaderCopyError,
        /// Fault of copy B.
        b: HeaderCopyError,
    },
    /// A copy of the header was written by a program that knows more than this one, or for another CPU.
    #[error("{error}; {}", hint_for_incompatible(.error))]
    Incompatible {
        /// The incompatible copy.
        copy: HeaderCopy,
        /// The feature, version or byte order that this program does not know.
        #[source]
        error: HeaderError,
    },
    /// The two copies of the header belong to two pools.
    #[error("the copies of the header belong to two pools (A: {a}; B: {b}); {NO_COPY_LEFT}")]
    TwoPools {
        /// The pool of copy A.
        a: Uuid,
        /// The pool of copy B.
        b: Uuid,
    },
    /// The two copies of the header are whole and have the same generation, but differ.
    #[error("the copies of the header differ, though both are update {generation}; {NO_COPY_LEFT}")]
    CopiesDiffer {
        /// The generation of both.
        generation: u64,
    },
    /// The file or device ends before the pool does.
    #[error(
        "the pool has {want} bytes, but only {found} of them are there; restore the file from a backup, or \
         repair the pool to keep what is left"
    )]
    Truncated {
        /// Length of the pool in bytes.
        want: u64,
        /// Length of the file or device in bytes.
        found: u64,
    },
    /// A pool can't have this size.
    #[error("{0}; choose another size")]
    Geometry(#[source] GeometryError),
    /// The header was written 2^64 - 1 times, so no generation number is left.
    #[error("the header can't be written any more")]
    GenerationsExhausted,
    /// The pool uses features that a writer must know and this program does not know.
    #[error(
        "the pool uses features that this program can't write: {unknown:#x}; open it for reading, or use a \
         newer version of Lodestone"
    )]
    UnknownRoCompat {
        /// The unknown bits.
        unknown: u64,
    },
    /// The pool was opened for reading, so nothing can be changed in it.
    #[error("the pool was opened for reading; open it for writing")]
    ReadOnly,
    /// A drain failed: the stores that it waited for may be durable or not.
    #[error("{error}; what was being written is in doubt; {REOPEN}")]
    Drain {
        /// The kernel's error.
        #[source]
        error: SyncError,
    },
    /// An earlier drain failed. The handle writes no more.
    #[error("an earlier sync failed, so nothing more is written; {REOPEN}")]
    Poisoned,
    /// The medium could not load or store a range.
    #[error("{fault}; check the pool to see what is affected")]
    Memory {
        /// The range, and the reason.
        #[source]
        fault: Fault,
    },
    /// The pool has another layout than the caller expects.
    #[error(
        "the pool holds the layout \"{found}\", not \"{want}\"; check the path, or name the layout that it \
         has"
    )]
    Layout {
        /// The layout that the caller expects.
        want: Box<LayoutName>,
        /// The layout of the pool.
        found: Box<LayoutName>,
    },
    /// The pool holds no heap.
    #[error(
        "the layout of the pool is \"{layout}\": it holds no heap; use `lode volume` for blocks, `lode log` for log"
    )]
    NoHeap {
        /// The layout of the pool.
        layout: Box<LayoutName>,
    },
    /// The medium offers a weaker durability than it did when the pool was made.
    #[error(
        "the pool was made on a medium of durability {want}, and this one only offers {found}; move the pool to \
         a medium like the one it was made on, or force a durability"
    )]
    DurabilityTooWeak {
        /// The durability at creation.
        want: Durability,
        /// The durability offered now.
        found: Durability,
    },
    /// The medium is volatile, and no option allows that.
    #[error(
        "what is stored here is lost with the power ({report}); choose another place, or ask for durability \
         none"
    )]
    NotDurable {
        /// The facts found about the medium.
        report: Box<DurabilityReport>,
    },
    /// The file is on a network file system.
    #[error(
        "the file is on {name}, a network file system, where other machines see neither stores nor locks of this one; \
         choose a disk of this machine"
    )]
    NetworkFileSystem {
        /// Name of the file system.
        name: &'static str,
    },
    /// The pool is on a device, whose size is fixed.
    #[error(
        "the size of a device can't be changed; make a namespace of another size and copy the pool there"
    )]
    FixedSize,
    /// The pool has the size up to which it grows by itself, or would need more than that.
    #[error(
        "the pool grows by itself to at most {size_max} bytes; free something in it, or raise this maximum"
    )]
    Maximum {
        /// The maximum in bytes.
        size_max: u64,
    },
    /// A pool can't have a maximum below its size.
    #[error("a pool of {size} bytes can't have {size_max} bytes as its maximum; choose a greater maximum")]
    MaximumTooSmall {
        /// The requested maximum in bytes.
        size_max: u64,
        /// The size of the pool in bytes.
        size: u64,
    },
    /// The process has no addresses for a pool of that size.
    #[error(
        "addresses are reserved for {reserved} bytes of the pool, and {size} need more; open the pool again for \
         that size, or raise `ulimit -v`"
    )]
    AddressSpace {
        /// Size in bytes up to which the pool can grow while it is open.
        reserved: u64,
        /// The requested size in bytes.
        size: u64,
    },
    /// The file of the pool can't have that length. It has its old length, or does not exist.
    #[error("{}", limit.describe(*size))]
    NoSpace {
        /// The requested length in bytes.
        size: u64,
        /// The limit that it exceeds.
        limit: SpaceLimit,
    },
    /// The medium can't be used, for another reason.
    #[error("{0}")]
    Medium(#[source] Box<PmemError>),
    /// The modules lost data while a writer had the pool open: a flush to them failed when power did.
    #[error("{0}; repair the pool to check it and accept what is left")]
    DirtyShutdown(DirtyShutdown),
    /// Another handle has the pool open in a way that excludes this one.
    #[error("in use by {}; wait until it is closed, or end that process", holder_name(.holder))]
    InUse {
        /// A process that has the pool open, if the kernel tells.
        holder: Option<LockHolder>,
    },
    /// A file or device exists at the path already.
    #[error("exists already; choose another name, or remove it first")]
    Exists,
    /// The device begins with something else than zeros.
    #[error(
        "there is content at the start of the device, which may be a pool or a volume; choose another device, or overwrite it"
    )]
    Occupied,
    /// The file at the path can't hold a pool: it is a directory, a block device or a socket.
    #[error("neither an ordinary file nor a device-DAX node; name an ordinary file or a device-DAX node")]
    NotAFile,
    /// Another process opened this handle, before a fork.
    #[error(
        "the pool was opened by process {opener}, from which this one was forked; open the pool in this \
         process after the fork"
    )]
    Forked {
        /// The process that opened the pool.
        opener: u32,
    },
    /// A system call failed.
    #[error("{op}: {}{}", std::io::Error::from_raw_os_error(*.errno), hint_for_errno(*.errno))]
    Io {
        /// The operation: "open", "allocate", ...
        op: &'static str,
        /// The error number.
        errno: i32,
    },
}

/// A limit on the length of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpaceLimit {
    /// The free space of the disk (ENOSPC).
    Disk,
    /// The share of the disk that the user may take (EDQUOT).
    Quota,
    /// The greatest length of a file, of this file system or for this process (EFBIG).
    FileSize,
}

impl SpaceLimit {
    /// Returns the limit that a failed allocation met; `None` if it failed for another reason.
    fn of(errno: Errno) -> Option<SpaceLimit> {
        match errno {
            Errno::NOSPC => Some(SpaceLimit::Disk),
            Errno::DQUOT => Some(SpaceLimit::Quota),
            Errno::FBIG => Some(SpaceLimit::FileSize),
            _ => None,
        }
    }

    fn describe(self, size: u64) -> String {
        match self {
            SpaceLimit::Disk => format!(
                "the disk has no room for {size} bytes (No space left on device); free space, or choose a smaller size"
            ),
            SpaceLimit::Quota => format!(
                "{size} bytes exceed the quota on the disk (Disk quota exceeded); free space, ask for a greater quota, \
                 or choose a smaller size"
            ),
            SpaceLimit::FileSize => format!(
                "the file system, or `ulimit -f`, allows no file of {size} bytes (File too large); raise the limit, or \
                 choose a smaller size"
            ),
        }
    }
}

impl PoolError {
    /// Adds `path` to the error, unless it has a path already.
    pub fn at(self, path: &Path) -> PoolError {
        match self {
            PoolError::At { .. } => self,
            error => PoolError::At { path: path.to_owned(), error: Box::new(error) },
        }
    }

    /// Makes the error of a failed system call `op`.
    pub(crate) fn io(op: &'static str, errno: Errno) -> PoolError {
        PoolError::Io { op, errno: errno.raw_os_error() }
    }

    /// Converts an error of the allocation of a file of `size` bytes.
    pub fn allocation(op: &'static str, error: &std::io::Error, size: u64) -> PoolError {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        SpaceLimit::of(errno)
            .map_or_else(|| PoolError::io(op, errno), |limit| PoolError::NoSpace { size, limit })
    }

    /// Converts an error of a new file.
    pub(crate) fn new_file(error: PmemError) -> PoolError {
        match error {
            PmemError::Io { errno, .. } if errno == Errno::EXIST.raw_os_error() => PoolError::Exists,
            error => PoolError::medium(error),
        }
    }

    /// Returns a function that converts the standard library's errors of `op` into ours.
    pub(crate) fn std(op: &'static str) -> impl Fn(std::io::Error) -> PoolError {
        move |error| PoolError::Io { op, errno: error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()) }
    }

    /// Converts an error of mapping or growing a medium.
    pub(crate) fn medium(error: PmemError) -> PoolError {
        let empty = HeaderCopyError::Invalid(HeaderError::TooShort { len: 0 });
        match error {
            PmemError::Io { op, errno, .. } => PoolError::Io { op, errno },
            PmemError::NotMappable { .. } => PoolError::NotAFile,
            PmemError::Empty { .. } => PoolError::Headers { a: empty, b: empty },
            PmemError::Volatile { report, .. } => PoolError::NotDurable { report: Box::new(report) },
            PmemError::NetworkFileSystem { name, .. } => PoolError::NetworkFileSystem { name },
            PmemError::FixedSize { .. } => PoolError::FixedSize,
            PmemError::AddressSpace { reserved, asked, .. } => {
                PoolError::AddressSpace { reserved, size: asked }
            }
            error => PoolError::Medium(Box::new(error)),
        }
    }

    /// Returns true if no pool is there: the bytes do not begin as one does.
    pub fn has_no_pool(&self) -> bool {
        matches!(self.cause(), PoolError::Headers { a, b } if has_no_pool(a) && has_no_pool(b))
    }

    /// Returns the error without the path.
    pub fn cause(&self) -> &PoolError {
        match self {
            PoolError::At { error, .. } => error.cause(),
            error => error,
        }
    }
}

fn has_no_pool(fault: &HeaderCopyError) -> bool {
    matches!(fault, HeaderCopyError::Invalid(HeaderError::NotAPool { .. } | HeaderError::TooShort { .. }))
}

/// Returns the message for two bad copies of the header.
fn header_errors(a: &HeaderCopyError, b: &HeaderCopyError) -> String {
    match (has_no_pool(a) && has_no_pool(b), a == b) {
        (true, _) => format!("{a}; check the path, or make a pool"),
        (false, true) => format!("{a}; {NO_COPY_LEFT}"),
        (false, false) => format!("both copies of the header are damaged (A: {a}; B: {b}); {NO_COPY_LEFT}"),
    }
}

fn hint_for_incompatible(error: &HeaderError) -> &'static str {
    match error {
        HeaderError::OtherEndian => "export its content on the machine that made it",
        HeaderError::Version { major, .. } if *major < header::MAJOR => {
            "export its content with the version of Lodestone that made it, and load that into a new pool"
        }
        _ => "use the version of Lodestone that made the pool, or a newer one",
    }
}

fn holder_name(holder: &Option<LockHolder>) -> String {
    let unknown = || "a process that the kernel does not show".to_owned();
    holder.as_ref().map_or_else(unknown, ToString::to_string)
}

/// Returns the next step after this error of the kernel, as the end of a message.
fn hint_for_errno(errno: i32) -> &'static str {
    match Errno::from_raw_os_error(errno) {
        Errno::NOSPC | Errno::DQUOT => "; free space on the disk",
        Errno::ACCESS | Errno::PERM => "; ask for permission, or choose another place",
        Errno::ROFS => "; open it for reading, or choose a file system that is mounted for writing",
        Errno::NOENT => "; check the path",
        _ => "",
    }
}
