//! The machine that loses power: the rules of its CPU and the rung of its medium.

use lode_layout::LINE;
use lode_pmem::Rung;
use std::fmt;

/// Bytes of a sector, the unit that a block device writes whole or not at all.
pub(crate) const SECTOR: u64 = 512;

/// The order in which the stores to one cache line reach the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cpu {
    /// The stores to a line arrive in the order in which they were made; stores past the cache arrive in any order.
    X86,
    /// The words of a line arrive in any order; the stores to one word arrive in the order in which they were made.
    Arm,
}

/// The rules that decide which states a power cut may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    /// Order of the stores within a line. Ignored on the commit rung, which has sectors instead.
    pub cpu: Cpu,
    /// Event that makes a store durable. [`Rung::None`] makes none durable, so there is nothing to explore.
    pub rung: Rung,
}

impl Machine {
    /// Each machine that the explorer knows.
    pub const ALL: [Machine; 5] = [
        Machine { cpu: Cpu::X86, rung: Rung::Line },
        Machine { cpu: Cpu::Arm, rung: Rung::Line },
        Machine { cpu: Cpu::X86, rung: Rung::Byte },
        Machine { cpu: Cpu::Arm, rung: Rung::Byte },
        Machine { cpu: Cpu::X86, rung: Rung::Commit },
    ];

    /// Returns the bytes of a unit: a line or a sector. A power cut chooses the content of each unit independently.
    pub(crate) fn unit(self) -> u64 {
        match self.rung {
            Rung::Commit => SECTOR,
            _ => LINE,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rung, self.cpu) {
            (Rung::Commit, _) => f.write_str("commit"),
            (rung, Cpu::X86) => write!(f, "x86-{rung}"),
            (rung, Cpu::Arm) => write!(f, "arm-{rung}"),
        }
    }
}
