//! Errors of reads and writes of info blocks.

use crate::file::error::FileError;
use crate::namespace::error::NamespaceError;
use lode_nvdimm::InfoBlockError;
use std::path::PathBuf;
use thiserror::Error;
use uuid::Uuid;

/// Info blocks can't be read, written or verified.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InfoBlockFault {
    /// The namespace is enabled, so its personality has its info blocks.
    #[error(
        "{name} is enabled, and only the info blocks of disabled namespaces are accessible; disable it first"
    )]
    Enabled {
        /// The namespace.
        name: String,
    },
    /// The file ends before the end of the info blocks.
    #[error("{of} has {len} bytes, and info blocks are in the first 8192; name an image of a namespace")]
    TooShort {
        /// The file.
        of: String,
        /// Its length in bytes.
        len: u64,
    },
    /// The file is neither a regular file nor a block device.
    #[error("{} is neither a file nor a block device; name an image of a namespace", path.display())]
    FileType {
        /// The file.
        path: PathBuf,
    },
    /// The size is not a multiple of the alignment.
    #[error(
        "a size of {size} bytes is not a multiple of the alignment of {align}; choose another size or alignment"
    )]
    Misaligned {
        /// The size in bytes.
        size: u64,
        /// The alignment in bytes.
        align: u64,
    },
    /// The parameters give no info block.
    #[error(
        "no info block fits {size} bytes at {start:#x}: {error}; choose another size, offset or alignment"
    )]
    Plan {
        /// Size in bytes.
        size: u64,
        /// Address of the first byte.
        start: u64,
        /// The reason.
        #[source]
        error: InfoBlockError,
    },
    /// The checksum of an info block is wrong.
    #[error(
        "{of}: the info block {signature} is damaged: its checksum is not that of its bytes; write it again"
    )]
    Checksum {
        /// The namespace or file.
        of: String,
        /// The signature of the block.
        signature: String,
    },
    /// An info block was made for another namespace.
    #[error(
        "{of}: the info block {signature} is of the namespace {found}, not of {want}: the kernel ignores it"
    )]
    Parent {
        /// The namespace.
        of: String,
        /// The signature of the block.
        signature: String,
        /// UUID of the namespace.
        want: Uuid,
        /// UUID in the block.
        found: Uuid,
    },
    /// The namespace does not exist, or its region is disabled.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The kernel refused an operation on a file.
    #[error(transparent)]
    File(#[from] FileError),
}
