//! Errors of opening and growing a medium.

use crate::DurabilityReport;
use std::io;
use std::path::PathBuf;

/// Reasons why a medium could not be opened or grown. Without a file, the path is "anonymous memory".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PmemError {
    /// The kernel refused a call.
    #[error("{}: {op}{}", .path.display(), refusal(*.errno))]
    Io {
        /// The system call, or the attribute that was read.
        op: &'static str,
        /// The file or device of the call.
        path: PathBuf,
        /// The error number; 0 if the kernel's answer was invalid.
        errno: i32,
    },
    /// The path is neither a regular file nor a device-DAX node.
    #[error("{}: neither an ordinary file nor a device-DAX node", .path.display())]
    NotMappable {
        /// Path of the medium.
        path: PathBuf,
    },
    /// The file is empty.
    #[error("{}: holds no byte", .path.display())]
    Empty {
        /// Path of the medium.
        path: PathBuf,
    },
    /// The memory loses its content with its power, and the caller did not request such a durability.
    #[error("{}: not durable ({report}); ask for durability none by name to use it", .path.display())]
    Volatile {
        /// Path of the medium.
        path: PathBuf,
        /// The durability that was found, and the evidence.
        report: DurabilityReport,
    },
    /// The CPU has no instruction that writes a line back to persistence.
    #[error("{}: this CPU has no instruction that flushes to persistence ({report})", .path.display())]
    NoFlush {
        /// Path of the medium.
        path: PathBuf,
        /// The durability that needs such an instruction, and the evidence.
        report: DurabilityReport,
    },
    /// A medium can't become shorter while it is open.
    #[error("{}: is {len} bytes long and can't shrink to {asked} while open", .path.display())]
    Shrink {
        /// Path of the medium.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
        /// The requested length in bytes.
        asked: u64,
    },
    /// The medium is a device or a private view, so its size is fixed.
    #[error("{}: can't grow, its size is fixed", .path.display())]
    FixedSize {
        /// Path of the medium.
        path: PathBuf,
    },
    /// The medium can't grow further in place. It can after it is opened again.
    #[error(
        "{}: can't grow to {asked} bytes in place, only to {reserved}; close and open it again",
        .path.display()
    )]
    AddressSpace {
        /// Path of the medium.
        path: PathBuf,
        /// The length in bytes to which it can grow.
        reserved: u64,
        /// The requested length in bytes.
        asked: u64,
    },
    /// The file is on a network file system.
    #[error("{}: on {name}, a network file system; choose a disk of this machine", .path.display())]
    NetworkFileSystem {
        /// Path of the file.
        path: PathBuf,
        /// Name of the file system.
        name: &'static str,
    },
    /// The variable LODE_CPU_MASK names an unknown feature of this kind of CPU.
    #[error("LODE_CPU_MASK names {name}, which is no feature that can be hidden here")]
    UnknownCpuFeature {
        /// The name.
        name: String,
    },
}

impl PmemError {
    /// Returns the error of a refused `op`.
    pub(crate) fn io(op: &'static str, path: impl Into<PathBuf>, error: &io::Error) -> PmemError {
        PmemError::Io { op, path: path.into(), errno: error.raw_os_error().unwrap_or(0) }
    }
}

/// Returns the kernel's refusal, as the end of a sentence.
fn refusal(errno: i32) -> String {
    match errno {
        0 => " gave no answer that makes sense".to_owned(),
        errno => format!(": {}", io::Error::from_raw_os_error(errno)),
    }
}
