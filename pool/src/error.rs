//! Errors of pools.

use crate::{CopyFault, DirtyShutdown, HeaderCopy, Holder};
use lode_layout::{GeometryError, HeaderError, LayoutName, Rung};
use lode_pmem::{Fault, PmemError, RungReport, SyncError};
use rustix::io::Errno;
use std::fmt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The reason why an operation on a pool failed. The message ends with the next step for the user.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// The error of the pool at `path`: every error of a function that takes a path is wrapped in this one.
    At {
        /// The file or device.
        path: PathBuf,
        /// The error itself.
        error: Box<PoolError>,
    },
    /// Neither copy of the header can be used.
    Headers {
        /// Fault of copy A.
        a: CopyFault,
        /// Fault of copy B.
        b: CopyFault,
    },
    /// A copy of the header was written by a program that knows more than this one, or for another CPU.
    Foreign {
        /// The foreign copy.
        copy: HeaderCopy,
        /// The feature, version or byte order that this program does not know.
        error: HeaderError,
    },
    /// The two copies of the header belong to two pools.
    TwoPools {
        /// The pool of copy A.
        a: Uuid,
        /// The pool of copy B.
        b: Uuid,
    },
    /// The two copies of the header are whole and have the same generation, but differ.
    CopiesDiffer {
        /// The generation of both.
        generation: u64,
    },
    /// The file or device ends before the pool does.
    CutShort {
        /// Length of the pool in bytes.
        want: u64,
        /// Length of the file or device in bytes.
        found: u64,
    },
    /// A pool can't have this size.
    Geometry(GeometryError),
    /// The header was written 2^64 - 1 times, so no generation number is left.
    GenerationsExhausted,
    /// The pool uses features that a writer must know and this program does not know.
    OnlyReadable {
        /// The unknown bits.
        unknown: u64,
    },
    /// The pool was opened for reading, so nothing can be changed in it.
    OpenedForReading,
    /// A drain failed: the stores that it waited for may be durable or not.
    Drain {
        /// The kernel's error.
        error: SyncError,
    },
    /// An earlier drain failed. The handle writes no more.
    Poisoned,
    /// The medium could not load or store a range.
    Memory {
        /// The range, and the reason.
        fault: Fault,
    },
    /// The pool has another layout than the caller expects.
    Layout {
        /// The layout that the caller expects.
        want: Box<LayoutName>,
        /// The layout of the pool.
        found: Box<LayoutName>,
    },
    /// The medium offers a weaker rung than it did when the pool was made.
    RungTooWeak {
        /// The rung at creation.
        want: Rung,
        /// The rung offered now.
        found: Rung,
    },
    /// The medium is volatile, and no option allows that.
    NotDurable {
        /// The facts found about the medium.
        report: Box<RungReport>,
    },
    /// The pool is on a device, whose size is fixed.
    FixedSize,
    /// The pool can't grow any further: the address space reserved for it is full.
    AddressSpace {
        /// Size in bytes up to which the pool can grow while it is open.
        reserved: u64,
    },
    /// The medium can't be used, for another reason.
    Medium(Box<PmemError>),
    /// The modules lost data while a writer had the pool open: a flush to them failed when power did.
    DirtyShutdown(DirtyShutdown),
    /// Another handle has the pool open in a way that excludes this one.
    InUse {
        /// A process that has the pool open, if the kernel tells.
        holder: Option<Holder>,
    },
    /// A file or device exists at the path already.
    Exists,
    /// The file at the path can't hold a pool: it is a directory, a block device or a socket.
    NotAFile,
    /// Another process opened this handle, before a fork.
    Forked {
        /// The process that opened the pool.
        opener: u32,
    },
    /// A system call failed.
    Io {
        /// The operation: "open", "allocate", ...
        op: &'static str,
        /// The error number.
        errno: i32,
    },
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
        let empty = CopyFault::Invalid(HeaderError::TooShort { len: 0 });
        match error {
            PmemError::Io { op, errno, .. } => PoolError::Io { op, errno },
            PmemError::NotMappable { .. } => PoolError::NotAFile,
            PmemError::Empty { .. } => PoolError::Headers { a: empty, b: empty },
            PmemError::Volatile { report, .. } => PoolError::NotDurable { report: Box::new(report) },
            PmemError::FixedSize { .. } => PoolError::FixedSize,
            PmemError::AddressSpace { reserved, .. } => PoolError::AddressSpace { reserved },
            error => PoolError::Medium(Box::new(error)),
        }
    }

    /// Returns the error without the path.
    pub fn cause(&self) -> &PoolError {
        match self {
            PoolError::At { error, .. } => error.cause(),
            error => error,
        }
    }

    /// Returns the next step for the user, where there is better advice than the reason itself.
    fn next_step(&self) -> Option<&'static str> {
        Some(match self {
            PoolError::Headers { a, b } if is_no_pool(a) && is_no_pool(b) => {
                "check the path, or make a pool with `lode pool create`"
            }
            PoolError::Headers { .. } | PoolError::TwoPools { .. } | PoolError::CopiesDiffer { .. } => {
                "no copy is left to repair from: restore the pool from a backup"
            }
            PoolError::Foreign { error: HeaderError::OtherEndian, .. } => {
                "export its content on the machine that made it"
            }
            PoolError::Foreign { .. } => "use the version of Lodestone that made the pool, or a newer one",
            PoolError::CutShort { .. } => {
                "restore the file from a backup, or run `lode pool repair` to keep what is left"
            }
            PoolError::Geometry(_) => "choose another size",
            PoolError::OnlyReadable { .. } => "open it for reading, or use a newer version of Lodestone",
            PoolError::Drain { .. } | PoolError::Poisoned => {
                "look for errors of the device in the kernel's log, then reopen the pool"
            }
            PoolError::Memory { .. } => "run `lode pool check` to see what is affected",
            PoolError::Layout { .. } => "check the path, or name the layout that it has",
            PoolError::RungTooWeak { .. } => {
                "move the pool to a medium like the one it was made on, or force a rung with --durability"
            }
            PoolError::NotDurable { .. } => "choose another place, or ask for it with --durability none",
            PoolError::FixedSize => "make a larger namespace and copy the pool there",
            PoolError::AddressSpace { .. } => "close it, open it again, and grow it then",
            PoolError::DirtyShutdown(_) => "run `lode pool repair` to check it and accept what is left",
            PoolError::InUse { .. } => "wait until it is closed, or end that process",
            PoolError::Exists => "choose another name, or remove it first",
            PoolError::NotAFile => "name an ordinary file or a device-DAX node",
            PoolError::Forked { .. } => "open the pool in this process after the fork",
            PoolError::OpenedForReading => "open it for writing",
            PoolError::Io { errno, .. } => return step_after(*errno),
            PoolError::At { .. } | PoolError::Medium(_) | PoolError::GenerationsExhausted => return None,
        })
    }

    fn reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::At { path, error } => write!(f, "{}: {error}", path.display()),
            PoolError::Headers { a, b } if a == b || (is_no_pool(a) && is_no_pool(b)) => write!(f, "{a}"),
            PoolError::Headers { a, b } => {
                write!(f, "both copies of the header are damaged (A: {a}; B: {b})")
            }
            PoolError::Foreign { error, .. } => write!(f, "{error}"),
            PoolError::TwoPools { a, b } => {
                write!(f, "the copies of the header belong to two pools (A: {a}; B: {b})")
            }
            PoolError::CopiesDiffer { generation } => {
                write!(f, "the copies of the header differ, though both are update {generation}")
            }
            PoolError::CutShort { want, found } => {
                write!(f, "the pool has {want} bytes, but only {found} of them are there")
            }
            PoolError::Geometry(error) => write!(f, "{error}"),
            PoolError::GenerationsExhausted => write!(f, "the header can't be written any more"),
            PoolError::OnlyReadable { unknown } => {
                write!(f, "the pool uses features that this program can't write: {unknown:#x}")
            }
            PoolError::OpenedForReading => write!(f, "the pool was opened for reading"),
            PoolError::Drain { error } => write!(f, "{error}; what was being written is in doubt"),
            PoolError::Poisoned => write!(f, "an earlier sync failed, so nothing more is written"),
            PoolError::Memory { fault } => write!(f, "{fault}"),
            PoolError::Layout { want, found } => {
                write!(f, "the pool holds the layout \"{found}\", not \"{want}\"")
            }
            PoolError::RungTooWeak { want, found } => {
                write!(f, "the pool was made on a medium of rung {want}, and this one only offers {found}")
            }
            PoolError::NotDurable { report } => {
                write!(f, "what is stored here is lost with the power ({report})")
            }
            PoolError::FixedSize => write!(f, "the size of a device can't be changed"),
            PoolError::AddressSpace { reserved } => {
                write!(f, "the pool can only grow to {reserved} bytes while it is open")
            }
            PoolError::Medium(error) => write!(f, "{error}"),
            PoolError::DirtyShutdown(shutdown) => write!(f, "{shutdown}"),
            PoolError::InUse { holder: Some(holder) } => write!(f, "the pool is in use by {holder}"),
            PoolError::InUse { holder: None } => {
                write!(f, "the pool is in use by a process that the kernel does not show")
            }
            PoolError::Exists => write!(f, "exists already"),
            PoolError::NotAFile => write!(f, "neither an ordinary file nor a device-DAX node"),
            PoolError::Forked { opener } => {
                write!(f, "the pool was opened by process {opener}, from which this one was forked")
            }
            PoolError::Io { op, errno } => {
                write!(f, "{op}: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

fn is_no_pool(fault: &CopyFault) -> bool {
    matches!(fault, CopyFault::Invalid(HeaderError::NotAPool { .. } | HeaderError::TooShort { .. }))
}

fn step_after(errno: i32) -> Option<&'static str> {
    Some(match Errno::from_raw_os_error(errno) {
        Errno::FBIG => "choose a smaller size: the file system, or `ulimit -f`, allows no file of that one",
        Errno::NOSPC | Errno::DQUOT => "free space, or choose a smaller size",
        Errno::ACCESS | Errno::PERM => "ask for permission, or choose another place",
        Errno::ROFS => "open it for reading, or choose a file system that is mounted for writing",
        Errno::NOENT => "check the path",
        _ => return None,
    })
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason(f)?;
        self.next_step().map_or(Ok(()), |step| write!(f, "; {step}"))
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PoolError::At { error, .. } => Some(error),
            PoolError::Headers { a, .. } => Some(a),
            PoolError::Foreign { error, .. } => Some(error),
            PoolError::Geometry(error) => Some(error),
            PoolError::Drain { error } => Some(error),
            PoolError::Medium(error) => Some(error),
            PoolError::Memory { fault } => Some(fault),
            _ => None,
        }
    }
}
