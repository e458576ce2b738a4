//! A machine, its state, and the contents of its modules.

use crate::contents::Contents;
use crate::machine::{FIRMWARE_SPACE, Machine, Module};
use crate::state::State;

/// A machine, its state, and the contents of its modules. [`Directory`](crate::Directory) keeps them in files.
#[derive(Clone, Debug)]
pub struct Platform {
    /// The hardware.
    pub machine: Machine,
    /// The configuration.
    pub state: State,
    /// The label areas and info blocks of the modules.
    pub(crate) contents: Contents,
}

/// Use of the capacity of one or more modules, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacities {
    /// Total capacity.
    pub total: u64,
    /// Volatile memory.
    pub memory: u64,
    /// Mapped persistent memory.
    pub app_direct: u64,
    /// Capacity of modules without a goal.
    pub unconfigured: u64,
    /// Capacity that firmware keeps, and the remainder that fills no aligned unit.
    pub inaccessible: u64,
    /// Persistent capacity that a goal left unmapped.
    pub reserved: u64,
}

impl Platform {
    /// Returns a machine in its factory state.
    pub fn new(machine: Machine) -> Platform {
        Platform { machine, state: State::new(), contents: Contents::default() }
    }

    /// Returns the use of a module's capacity.
    pub fn capacities(&self, module: &Module) -> Capacities {
        let total = module.capacity;
        let Some(partition) = self.state.partition(module.handle) else {
            return Capacities { total, unconfigured: total, ..Capacities::default() };
        };
        let shares = self.state.sets_of(module.handle).map(|(set, _)| set.share);
        let app_direct = shares.fold(0, u64::saturating_add);
        let (memory, reserved) = (partition.memory, partition.reserved);
        // The parts of a state that was not validated may be more than the whole.
        let used = [memory, app_direct, reserved].into_iter().fold(0, u64::saturating_add);
        let inaccessible = total.saturating_sub(used);
        Capacities { total, memory, app_direct, reserved, inaccessible, unconfigured: 0 }
    }

    /// Returns the use of the capacity of all modules.
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

    /// Returns true if the kernel uses the module: it answers, is not locked, and was not disabled.
    pub fn is_enabled(&self, module: &Module) -> bool {
        module.usable() && !self.state.is_disabled(module.handle)
    }

    /// Returns true if DRAM is a cache of volatile memory on the modules. It is one as soon as a module gives any.
    pub fn memory_mode(&self) -> bool {
        self.state.partitions.iter().any(|partition| partition.memory > 0)
    }

    /// Returns the bytes of volatile memory that the modules of a socket contribute.
    pub(crate) fn memory_on(&self, socket: u16) -> u64 {
        let partitions = self.state.partitions.iter().filter(|partition| partition.module.socket() == socket);
        partitions.map(|partition| partition.memory).sum()
    }

    /// Returns the offset on the media, in bytes, of a module's persistent capacity after this much volatile memory.
    pub(crate) fn persistent_start(memory: u64) -> u64 {
        FIRMWARE_SPACE + memory
    }
}
