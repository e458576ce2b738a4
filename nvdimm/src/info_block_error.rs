//! Errors in the info blocks at the start of namespaces.

use lode_layout::Contradiction;
use std::fmt;

/// Reasons why bytes are not an info block, or why none can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InfoBlockError {
    /// There are fewer bytes than an info block has.
    TooShort {
        /// Number of bytes found.
        len: u64,
    },
    /// The bytes do not begin with the signature of this kind of info block.
    Absent,
    /// The checksum is wrong: the bytes are not those that were written.
    Checksum {
        /// The checksum of the bytes.
        want: u64,
        /// The checksum that the block holds.
        found: u64,
    },
    /// An info block of a version that this code does not know.
    Version {
        /// The major number.
        major: u16,
        /// The minor number.
        minor: u16,
    },
    /// A field breaks its rule.
    Field(Contradiction),
    /// The namespace is too small for the parts that the block describes.
    TooSmall {
        /// Size of the namespace in bytes.
        size: u64,
        /// Least size in bytes.
        size_min: u64,
    },
}

impl From<Contradiction> for InfoBlockError {
    fn from(contradiction: Contradiction) -> InfoBlockError {
        InfoBlockError::Field(contradiction)
    }
}

impl fmt::Display for InfoBlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InfoBlockError::TooShort { len } => write!(f, "{len} bytes are too few for an info block"),
            InfoBlockError::Absent => f.write_str("there is no such info block"),
            InfoBlockError::Checksum { want, found } => {
                write!(f, "the checksum of the info block is {found:#018x}, that of its bytes {want:#018x}")
            }
            InfoBlockError::Version { major, minor } => {
                write!(f, "an info block of the unknown version {major}.{minor}")
            }
            InfoBlockError::Field(contradiction) => contradiction.fmt(f),
            InfoBlockError::TooSmall { size, size_min } => {
                write!(f, "a namespace of {size} bytes is too small, it needs {size_min}")
            }
        }
    }
}

impl std::error::Error for InfoBlockError {}
