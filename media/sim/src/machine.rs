//! The machine that loses power: the rules of its CPU and the durability of its medium.

use lode_layout::LINE;
use lode_pmem::Durability;
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
    /// Order of the stores within a line. Ignored at durability commit, which has sectors instead.
    pub cpu: Cpu,
    /// Event that makes a store durable. [`Durability::None`] makes none durable, so there is nothing to explore.
    pub durability: Durability,
}

impl Machine {
    /// Each machine that the explorer knows.
    pub const ALL: [Machine; 5] = [
        Machine { cpu: Cpu::X86, durability: Durability::Line },
        Machine { cpu: Cpu::Arm, durability: Durability::Line },
        Machine { cpu: Cpu::X86, durability: Durability::Byte },
        Machine { cpu: Cpu::Arm, durability: Durability::Byte },
        Machine { cpu: Cpu::X86, durability: Durability::Commit },
    ];

    /// Returns the bytes of a unit: a line or a sector. A power cut chooses the content of each unit independently.
    pub(crate) fn unit(self) -> u64 {
        match self.durability {
            Durability::Commit => SECTOR,
            _ => LINE,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.durability, self.cpu) {
            (Durability::Commit, _) => f.write_str("commit"),
            (durability, Cpu::X86) => write!(f, "x86-{durability}"),
            (durability, Cpu::Arm) => write!(f, "arm-{durability}"),
        }
    }
}
