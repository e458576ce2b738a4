//! A single copy of the header, of the two that a pool has.

use lode_layout::{Geometry, Header, HeaderError, PoolOffset, header};
use lode_pmem::{Fault, FaultScope, Medium};
use std::fmt;

/// One of the two copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderCopy {
    /// The first 4096 bytes of the pool.
    A,
    /// The next 4096 bytes.
    B,
}

/// The reason why a copy can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderCopyError {
    /// Its bytes are not a header that this program can use.
    #[error("{0}")]
    Invalid(#[source] HeaderError),
    /// Its bytes can't be loaded.
    #[error("{0}")]
    Unreadable(#[source] Fault),
}

impl HeaderCopy {
    /// Returns the offset of the copy's first byte.
    pub fn at(self) -> PoolOffset {
        match self {
            HeaderCopy::A => Geometry::HEADER_A,
            HeaderCopy::B => Geometry::HEADER_B,
        }
    }

    /// Returns the other copy.
    pub fn other(self) -> HeaderCopy {
        match self {
            HeaderCopy::A => HeaderCopy::B,
            HeaderCopy::B => HeaderCopy::A,
        }
    }

    /// Reads and decodes this copy. Does not check that the pool fits on the medium.
    ///
    /// # Errors
    /// Fails if the bytes can't be loaded, or are not a valid header.
    pub fn read<M: Medium>(self, medium: &M) -> Result<Header, HeaderCopyError> {
        let len = medium.memory().len().saturating_sub(self.at().get()).min(header::LEN as u64);
        let mut bytes = [0; header::LEN];
        let there = &mut bytes[..len as usize];
        if !there.is_empty() {
            medium
                .memory()
                .reading(|memory| memory.read(self.at(), there))
                .map_err(HeaderCopyError::Unreadable)?;
        }
        Header::decode(there).map_err(HeaderCopyError::Invalid)
    }

    /// Copies `bytes` here past the cache. Durable after the next drain.
    ///
    /// # Errors
    /// Fails if the memory is lost.
    pub(crate) fn write<M: Medium>(self, medium: &M, bytes: &[u8; header::LEN]) -> Result<(), Fault> {
        FaultScope::run(|| medium.copy(self.at(), bytes))
    }
}

impl HeaderCopyError {
    /// Returns true if the copy is whole but of a format that this program does not know: a newer version, features or
    /// another byte order. That is not damage.
    pub fn is_incompatible(&self) -> bool {
        matches!(
            self,
            HeaderCopyError::Invalid(
                HeaderError::Version { .. } | HeaderError::Incompat { .. } | HeaderError::OtherEndian
            )
        )
    }
}

impl fmt::Display for HeaderCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            HeaderCopy::A => "A",
            HeaderCopy::B => "B",
        })
    }
}
