//! Why something could not be done to a pool.

use crate::{CopyFault, DirtyShutdown, HeaderCopy, Holder};
use lode_layout::{GeometryError, HeaderError, LayoutName, Rung};
use lode_pmem::{Fault, PmemError, RungReport, SyncError};
use rustix::io::Errno;
use std::fmt;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Why something could not be done to a pool. What is printed ends with what the user can do next.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// The error of the pool at `path`: every error of a function that takes a path is wrapped in this one.
    At {
        /// The file or device.
        path: PathBuf,
        /// What happened there.
        error: Box<PoolError>,
    },
    /// Neither copy of the header can be used.
    Headers {
        /// What is wrong with copy A.
        a: CopyFault,
        /// What is wrong with copy B.
        b: CopyFault,
    },
    /// A copy of the header was written by a program that knows more than this one, or for another CPU.
    Foreign {
        /// Which copy.
        copy: HeaderCopy,
        /// What is foreign in it.
        error: HeaderError,
    },
    /// The two copies of the header belong to two pools.
    TwoPools {
        /// The pool of copy A.
        a: Uuid,
        /// The pool of copy B.
        b: Uuid,
    },
    /// The two copies of the header are whole and equally new, but differ.
    CopiesDiffer {
        /// The generation that both claim.
        generation: u64,
    },
    /// The file or device ends before the pool does.
    CutShort {
        /// The length of the pool in bytes.
        want: u64,
        /// The bytes that there are.
        found: u64,
    },
    /// The size can't be.
    Geometry(GeometryError),
    /// The header was written 2^64 - 1 times.
    GenerationsExhausted,
    /// The pool uses features that a writer must know and this program does not.
    OnlyReadable {
        /// The unknown bits.
        unknown: u64,
    },
    /// The pool was opened for reading, so nothing can be changed in it.
    OpenedForReading,
    /// A drain failed: what was in flight may be durable or not.
    Drain {
        /// The kernel's refusal.
        error: SyncError,
    },
    /// A drain failed before, so that nothing more is written through this handle.
    Poisoned,
    /// The medium could not load or store a range.
    Memory {
        /// Which, and why.
        fault: Fault,
    },
    /// The pool holds something else than what the caller expects.
    Layout {
        /// What the caller expects.
        want: Box<LayoutName>,
        /// What the pool says.
        found: Box<LayoutName>,
    },
    /// The medium offers less than it did when the pool was made.
    RungTooWeak {
        /// The rung at creation.
        want: Rung,
        /// The rung offered now.
        found: Rung,
    },
    /// The medium keeps nothing without power, and nobody said that this is fine.
    NotDurable {
        /// What the medium is.
        report: Box<RungReport>,
    },
    /// The pool is on a device, which has the size that it has.
    FixedSize,
    /// The pool can't grow any further in the address space that was held for it.
    AddressSpace {
        /// The size in bytes to which it can grow while it is open.
        reserved: u64,
    },
    /// The medium can't be used here, for another reason.
    Medium(Box<PmemError>),
    /// The modules lost data while a writer had the pool open: a flush to them failed when power did.
    DirtyShutdown(DirtyShutdown),
    /// Another handle has the pool open, in a way that excludes this one.
    InUse {
        /// Who, where the kernel tells; one of them when there are several.
        holder: Option<Holder>,
    },
    /// There is something at the path already.
    Exists,
    /// What is at the path can't hold a pool: a directory, a block device, a socket.
    NotAFile,
    /// This handle belongs to the process that forked this one.
    Forked {
        /// The process that opened the pool.
        opener: u32,
    },
    /// A system call failed.
    Io {
        /// What was attempted: "open", "allocate", ...
        op: &'static str,
        /// The error number.
        errno: i32,
    },
}

impl PoolError {
    /// This error, of the pool at `path`. Wraps once only.
    pub fn at(self, path: &Path) -> PoolError {
        match self {
            PoolError::At { .. } => self,
            error => PoolError::At { path: path.to_owned(), error: Box::new(error) },
        }
    }

    /// The kernel's refusal of `op`.
    pub(crate) fn io(op: &'static str, errno: Errno) -> PoolError {
        PoolError::Io { op, errno: errno.raw_os_error() }
    }

    /// The kernel's refusal to give a file its name.
    pub(crate) fn named(op: &'static str, errno: Errno) -> PoolError {
        if errno == Errno::EXIST { PoolError::Exists } else { PoolError::io(op, errno) }
    }

    /// Turns the standard library's errors of `op` into ours.
    pub(crate) fn std(op: &'static str) -> impl Fn(std::io::Error) -> PoolError {
        move |error| PoolError::Io { op, errno: error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()) }
    }

    /// What a medium said when it was mapped or grown.
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

    /// What happened, without the path.
    pub fn cause(&self) -> &PoolError {
        match self {
            PoolError::At { error, .. } => error.cause(),
            error => error,
        }
    }

    /// What the user can do next, where there is something better than the reason itself.
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
