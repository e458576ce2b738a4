//! Errors of goals.

use crate::machine::{Handle, ModuleError};
use thiserror::Error;

/// A goal is impossible.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GoalError {
    /// No module can be used.
    #[error("no module is left that could be used")]
    NoModules,
    /// The percentages of a goal exceed 100.
    #[error("MemoryMode={memory} and Reserved={reserved} are more than 100 together")]
    Percentages {
        /// Percentage of volatile memory.
        memory: u8,
        /// Percentage that stays unmapped.
        reserved: u8,
    },
    /// A module is named twice.
    #[error("module {module} is named twice; name it once")]
    DuplicateModule {
        /// The module.
        module: Handle,
    },
    /// A socket is named twice.
    #[error("socket {socket:#06x} is named twice; name it once")]
    DuplicateSocket {
        /// The socket.
        socket: u16,
    },
    /// Modules and sockets are named, and they are not the same modules.
    #[error("-dimm and -socket have to name the same modules, and only one of them names {module}")]
    TargetsDiffer {
        /// A module that only one of them names.
        module: Handle,
    },
    /// A module of the socket has a goal that did not take effect yet.
    #[error("module {module} has a goal already; reboot, or delete the goals of its socket")]
    GoalPending {
        /// The module.
        module: Handle,
    },
    /// The module holds a part of a namespace.
    #[error(
        "module {module} has a part of {namespace}, whose data a goal would destroy; \
         destroy the namespace first"
    )]
    ModuleInUse {
        /// The module.
        module: Handle,
        /// The namespace.
        namespace: String,
    },
    /// The modules are neither all of their socket nor all that are not configured.
    #[error(
        "a goal takes all modules of a socket, or all that are not configured; on socket {socket} it leaves out {}",
        list(missing)
    )]
    PartOfSocket {
        /// The socket.
        socket: u16,
        /// The modules that are missing.
        missing: Vec<Handle>,
    },
    /// The module shares an interleave set with a module that the goal does not include.
    #[error(
        "module {module} is interleaved with {other}, which the goal leaves as it is; add it to the goal"
    )]
    SetSplit {
        /// The module that the goal is for.
        module: Handle,
        /// The module that it shares a set with.
        other: Handle,
    },
    /// The socket has no DRAM, which would be the cache of memory on the modules.
    #[error("socket {socket} has no DRAM, which memory mode needs as its cache; leave memory mode out")]
    NoDram {
        /// The socket.
        socket: u16,
    },
    /// The socket has more DRAM than memory on the modules.
    #[error(
        "socket {socket} would have {memory} bytes of memory on modules, less than the {dram} bytes of DRAM that \
         become its cache; raise MemoryMode"
    )]
    LessThanDram {
        /// The socket.
        socket: u16,
        /// Bytes of memory on the modules.
        memory: u64,
        /// Bytes of DRAM.
        dram: u64,
    },
    /// Only some of the goals of a socket are to be deleted.
    #[error("goals are deleted for whole sockets; on socket {socket}, name {}, too", list(missing))]
    PartOfGoals {
        /// The socket.
        socket: u16,
        /// The other modules with goals.
        missing: Vec<Handle>,
    },
    /// The modules have no goal that could be deleted.
    #[error("{} {} no goal", list(modules), if modules.len() == 1 { "has" } else { "have" })]
    NoGoal {
        /// The modules.
        modules: Vec<Handle>,
    },
    /// The module does not exist, or can't be used.
    #[error(transparent)]
    Module(#[from] ModuleError),
}

fn list(modules: &[Handle]) -> String {
    modules.iter().map(Handle::to_string).collect::<Vec<_>>().join(", ")
}
