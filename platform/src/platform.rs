//! A machine with what it remembers: the questions that every listing asks.

use crate::contents::Contents;
use crate::machine::{FIRMWARE_SPACE, Machine, Module};
use crate::region::Region;
use crate::state::State;

/// A machine with what it remembers.
#[derive(Clone, Debug)]
pub struct Platform {
    /// What is plugged in.
    pub machine: Machine,
    /// How it is configured.
    pub state: State,
    /// What lies on the modules.
    pub(crate) contents: Contents,
}

/// What the capacity of a module, or of several, is used for, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacities {
    /// All there is.
    pub total: u64,
    /// Volatile memory.
    pub memory: u64,
    /// Mapped persistent memory.
    pub app_direct: u64,
    /// What no goal was made for.
    pub unconfigured: u64,
    /// What firmware keeps, and what does not fill an aligned piece.
    pub inaccessible: u64,
    /// Persistent capacity that a goal left unmapped.
    pub reserved: u64,
}

impl Platform {
    /// A machine fresh from the factory.
    pub fn new(machine: Machine) -> Platform {
        Platform { machine, state: State::new(), contents: Contents::default() }
    }

    /// What the capacity of a module is used for.
    pub fn capacities(&self, module: &Module) -> Capacities {
        let total = module.capacity;
        let Some(partition) = self.state.partition(module.handle) else {
            return Capacities { total, unconfigured: total, ..Capacities::default() };
        };
        let app_direct = self.state.sets_of(module.handle).map(|(set, _)| set.share).sum::<u64>();
        let (memory, reserved) = (partition.memory, partition.reserved);
        let inaccessible = total - memory - app_direct - reserved;
        Capacities { total, memory, app_direct, reserved, inaccessible, unconfigured: 0 }
    }

    /// What the capacity of all modules is used for.
    pub fn all_capacities(&self) -> Capacities {
        let each = self.machine.modules.iter().map(|module| self.capacities(module));
        each.fold(Capacities::default(), |sum, one| Capacities {
            total: sum.total + one.total,
            memory: sum.memory + one.memory,
            app_direct: sum.app_direct + one.app_direct,
            unconfigured: sum.unconfigured + one.unconfigured,
            inaccessible: sum.inaccessible + one.inaccessible,
            reserved: sum.reserved + one.reserved,
        })
    }

    /// Whether DRAM is a cache of volatile memory on the modules: so as soon as one of them gives any.
    pub fn memory_mode(&self) -> bool {
        self.state.partitions.iter().any(|partition| partition.memory > 0)
    }

    /// The regions, in the order of their numbers: those of interleave sets, then those of `memmap=`.
    pub fn regions(&self) -> Vec<Region> {
        Region::all(self)
    }

    /// Where on a module's media persistent capacity begins when it gives this much volatile memory, in bytes.
    pub(crate) fn persistent_start(memory: u64) -> u64 {
        FIRMWARE_SPACE + memory
    }
}
