//! Errors in the info blocks at the start of namespaces.

use lode_layout::InvalidField;

/// Reasons why bytes are not an info block, or why none can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InfoBlockError {
    /// There are fewer bytes than an info block has.
    #[error("{len} bytes are too few for an info block")]
    TooShort {
        /// Number of bytes found.
        len: u64,
    },
    /// The bytes do not begin with the signature of this kind of info block.
    #[error("there is no such info block")]
    Absent,
    /// The checksum is wrong: the bytes are not those that were written.
    #[error("the checksum of the info block is {found:#018x}, that of its bytes {want:#018x}")]
    Checksum {
        /// The checksum of the bytes.
        want: u64,
        /// The checksum that the block holds.
        found: u64,
    },
    /// An info block of a version that this code does not know.
    #[error("an info block of the unknown version {major}.{minor}")]
    Version {
        /// The major number.
        major: u16,
        /// The minor number.
        minor: u16,
    },
    /// A field breaks its rule.
    #[error(transparent)]
    Field(#[from] InvalidField),
    /// The namespace is too small for the parts that the block describes.
    #[error("a namespace of {size} bytes is too small, it needs {size_min}")]
    TooSmall {
        /// Size of the namespace in bytes.
        size: u64,
        /// Least size in bytes.
        size_min: u64,
    },
}
