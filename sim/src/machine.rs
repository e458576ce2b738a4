//! Which machine loses power: its CPU's rules and its medium's rung.

use lode_layout::LINE;
use lode_pmem::Rung;
use std::fmt;

/// Bytes of a sector, the unit that a block device writes whole or not at all.
pub(crate) const SECTOR: u64 = 512;

/// The order in which the stores to one cache line reach the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cpu {
    /// The stores to a line arrive in the order in which they were made; stores past the cache in any order.
    X86,
    /// The words of a line arrive in any order; each word's own stores in the order in which they were made.
    Arm,
}

/// The rules by which a power cut chooses what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    /// The order within a line. The commit rung has sectors instead and does not ask.
    pub cpu: Cpu,
    /// What makes a store durable. [`Rung::None`] keeps nothing, so there is nothing to explore.
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

    /// Bytes of the unit whose content a power cut chooses independently of other units: a line or a sector.
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
