//! Errors of modules.

use super::handle::{Handle, LargeHandle};
use thiserror::Error;

/// A module does not exist, or can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// The module does not exist.
    #[error("there is no module {module}")]
    UnknownModule {
        /// The handle that was given.
        module: Handle,
    },
    /// The number is no handle.
    #[error(transparent)]
    LargeHandle(#[from] LargeHandle),
    /// The socket does not exist.
    #[error("there is no socket {socket:#06x}")]
    UnknownSocket {
        /// The number that was given.
        socket: u16,
    },
    /// The kernel has no module with this number.
    #[error("there is no module nmem{index}")]
    UnknownDevice {
        /// N of nmemN.
        index: usize,
    },
    /// The kernel's module with this number is a CXL device.
    #[error(
        "nmem{index} is the CXL device mem{device}, which takes no such command; `lode cxl` has those for it, and `lode \
         ndctl list -D` lists the others"
    )]
    CxlDevice {
        /// N of nmemN.
        index: usize,
        /// N of memN.
        device: u32,
    },
    /// The module does not answer.
    #[error("module {module} is dead: no goal or namespace can use it; leave it out")]
    DeadModule {
        /// The module.
        module: Handle,
    },
    /// The module is locked: its data is not accessible.
    #[error("module {module} is locked: unlock it first, or leave it out")]
    LockedModule {
        /// The module.
        module: Handle,
    },
    /// The module overwrites its media.
    #[error("module {module} overwrites its media: wait until the overwrite has ended, or leave it out")]
    OverwrittenModule {
        /// The module.
        module: Handle,
    },
}
