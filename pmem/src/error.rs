//! What can go wrong while a medium is opened or grown.

use crate::RungReport;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a medium could not be opened or grown. Where there is no file, the path is "anonymous memory".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PmemError {
    /// The kernel refused.
    Io {
        /// The system call, or what was read.
        op: &'static str,
        /// Of what.
        path: PathBuf,
        /// The error number; 0 if the answer made no sense.
        errno: i32,
    },
    /// Neither an ordinary file nor a device-DAX node.
    NotMappable {
        /// What was to be mapped.
        path: PathBuf,
    },
    /// The file holds no byte.
    Empty {
        /// What was to be mapped.
        path: PathBuf,
    },
    /// The memory loses its content with its power, and nobody asked for that.
    Volatile {
        /// What was to be mapped.
        path: PathBuf,
        /// How it was found.
        report: RungReport,
    },
    /// The CPU has no instruction that writes a line back to persistence.
    NoFlush {
        /// What was to be mapped.
        path: PathBuf,
        /// How the rung was found that needs such an instruction.
        report: RungReport,
    },
    /// A medium can't become shorter while it is open.
    Shrink {
        /// The medium.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
        /// The length asked for in bytes.
        asked: u64,
    },
    /// The medium is a device, or a private view, and has the size that it has.
    FixedSize {
        /// The medium.
        path: PathBuf,
    },
    /// The medium can't grow in place any further until it is opened again.
    AddressSpace {
        /// The medium.
        path: PathBuf,
        /// The length in bytes to which it can grow.
        reserved: u64,
        /// The length asked for in bytes.
        asked: u64,
    },
    /// The variable LODE_CPU_MASK names something else than a feature of this kind of CPU.
    UnknownCpuFeature {
        /// The name.
        name: String,
    },
}

impl PmemError {
    /// The kernel's refusal of `op`.
    pub(crate) fn io(op: &'static str, path: impl Into<PathBuf>, error: &io::Error) -> PmemError {
        PmemError::Io { op, path: path.into(), errno: error.raw_os_error().unwrap_or(0) }
    }
}

impl fmt::Display for PmemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PmemError::Io { op, path, errno: 0 } => {
                write!(f, "{}: {op} gave no answer that makes sense", path.display())
            }
            PmemError::Io { op, path, errno } => {
                write!(f, "{}: {op}: {}", path.display(), io::Error::from_raw_os_error(*errno))
            }
            PmemError::NotMappable { path } => {
                write!(f, "{}: neither an ordinary file nor a device-DAX node", path.display())
            }
            PmemError::Empty { path } => write!(f, "{}: holds no byte", path.display()),
            PmemError::Volatile { path, report } => {
                write!(
                    f,
                    "{}: not durable ({report}); ask for the rung none by name to use it",
                    path.display()
                )
            }
            PmemError::NoFlush { path, report } => {
                write!(
                    f,
                    "{}: this CPU has no instruction that flushes to persistence ({report})",
                    path.display()
                )
            }
            PmemError::Shrink { path, len, asked } => {
                write!(f, "{}: is {len} bytes long and can't shrink to {asked} while open", path.display())
            }
            PmemError::FixedSize { path } => write!(f, "{}: can't grow, its size is fixed", path.display()),
            PmemError::AddressSpace { path, reserved, asked } => write!(
                f,
                "{}: can't grow to {asked} bytes in place, only to {reserved}; close and open it again",
                path.display()
            ),
            PmemError::UnknownCpuFeature { name } => {
                write!(f, "LODE_CPU_MASK names {name}, which is no feature that can be hidden here")
            }
        }
    }
}

impl std::error::Error for PmemError {}
