//! Durability: the event after which a store is durable.

use std::fmt;

/// The event that makes a store durable on a medium. Each step is a stronger promise than the one before it.
///
/// The order follows the promise: `Durability::None < Durability::Commit < Durability::Line < Durability::Byte`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Durability {
    /// Never durable: memory that loses its content without power (tmpfs, anonymous, volatile CXL).
    None = 0,
    /// Durable after a synced write of the log range: a file in the page cache, virtio-pmem.
    Commit = 1,
    /// Durable after a flush of its cache line, or a store that bypasses the cache, followed by a drain: ADR.
    Line = 2,
    /// Durable once it is visible, after a drain: the caches are in the persistence domain (eADR).
    Byte = 3,
}

impl Durability {
    /// Returns the durability that is stored as `code`, or `None` for an unknown code.
    pub const fn from_code(code: u8) -> Option<Durability> {
        match code {
            0 => Some(Durability::None),
            1 => Some(Durability::Commit),
            2 => Some(Durability::Line),
            3 => Some(Durability::Byte),
            _ => None,
        }
    }

    /// Returns the number under which the durability is stored on media.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Durability::None => "none",
            Durability::Commit => "commit",
            Durability::Line => "line",
            Durability::Byte => "byte",
        })
    }
}
