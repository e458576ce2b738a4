//! Errors of the kernel.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The kernel refused an operation on a file.
#[derive(Debug, Error)]
#[error("{what} {}: {error}", path.display())]
pub struct FileError {
    /// The operation.
    pub what: &'static str,
    /// Path of the file.
    pub path: PathBuf,
    /// The kernel's error.
    #[source]
    pub error: io::Error,
}
