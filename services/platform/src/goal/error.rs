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
    /// A percentage of a goal is less than half of firmware's alignment.
    #[error(
        "{percent}% of the {capacity} bytes of module {module} is less than half of {alignment} bytes, of which \
         firmware gives whole multiples"
    )]
    TooSmallShare {
        /// The percentage.
        percent: u8,
        /// The module.
        module: Handle,
        /// Its capacity in bytes.
        capacity: u64,
        /// Firmware allocates multiples of these bytes.
        alignment: u64,
    },
    /// The module has a goal that did not take effect yet.
    #[error("module {module} has a goal already; reboot, or delete the goal")]
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
    /// The module does not exist, or can't be used.
    #[error(transparent)]
    Module(#[from] ModuleError),
}
