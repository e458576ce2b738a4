//! Errors of a real machine's sysfs.

use crate::ipmctl::error::ShowError;
use std::path::PathBuf;
use thiserror::Error;

/// A folder is not a sysfs, or sysfs does not have a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SysfsError {
    /// The folder is not a kernel's sysfs.
    #[error(
        "{} is not what a kernel shows of a machine: there is no folder `bus` in it; the live one is /sys",
        path.display()
    )]
    NoSysfs {
        /// The folder.
        path: PathBuf,
    },
    /// Kernels do not show the value in sysfs.
    #[error("kernels don't tell {what} in sysfs; `{ask}` does, as root")]
    NotInSysfs {
        /// The value.
        what: &'static str,
        /// The command that shows it.
        ask: &'static str,
    },
    /// The modules, sockets or values do not exist.
    #[error(transparent)]
    Show(#[from] ShowError),
}
