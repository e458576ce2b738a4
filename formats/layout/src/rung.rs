//! The durability ladder: the event after which a store is durable.

use std::fmt;

/// The event that makes a store durable on a medium. Each step is a stronger promise than the one before it.
///
/// The order follows the promise: `Rung::None < Rung::Commit < Rung::Line < Rung::Byte`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Rung {
    /// Never durable: memory that loses its content without power (tmpfs, anonymous, volatile CXL).
    None = 0,
    /// Durable after a synced write of the log range: a file in the page cache, virtio-pmem.
    Commit = 1,
    /// Durable after a flush of its cache line, or a store that bypasses the cache, followed by a drain: ADR.
    Line = 2,
    /// Durable once it is visible, after a drain: the caches are in the persistence domain (eADR).
    Byte = 3,
}

impl Rung {
    /// Returns the rung that is stored as `code`, or `None` for an unknown code.
    pub const fn from_code(code: u8) -> Option<Rung> {
        match code {
            0 => Some(Rung::None),
            1 => Some(Rung::Commit),
            2 => Some(Rung::Line),
            3 => Some(Rung::Byte),
            _ => None,
        }
    }

    /// Returns the number under which the rung is stored on media.
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
