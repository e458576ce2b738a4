//! The durability ladder: after what a store is durable.

use std::fmt;

/// What makes a store durable on a medium, strongest promise first to weakest last.
///
/// The order is that of the promise: `Rung::None < Rung::Commit < Rung::Line < Rung::Byte`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Rung {
    /// Never durable: memory that loses its content with its power (tmpfs, anonymous, volatile CXL).
    None = 0,
    /// Durable after a synced write of the log range: a file in the page cache, virtio-pmem.
    Commit = 1,
    /// Durable after a flush of its cache line, or a store that bypasses the cache, and then a drain: ADR.
    Line = 2,
    /// Durable once it is visible, after a drain: the caches are in the persistence domain (eADR).
    Byte = 3,
}

impl Rung {
    /// The rung that is stored as `code`, if there is one.
    pub const fn from_code(code: u8) -> Option<Rung> {
        match code {
            0 => Some(Rung::None),
            1 => Some(Rung::Commit),
            2 => Some(Rung::Line),
            3 => Some(Rung::Byte),
            _ => None,
        }
    }

    /// The number under which the rung is stored on media.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Rung::None => "none",
            Rung::Commit => "commit",
            Rung::Line => "line",
            Rung::Byte => "byte",
        })
    }
}
