//! Errors of `ipmctl show`.

use crate::machine::ModuleError;
use thiserror::Error;

/// A listing names modules, sockets or values that do not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShowError {
    /// No value has this name.
    #[error("there is no value {name} to show")]
    UnknownValue {
        /// The name that was given.
        name: String,
    },
    /// The module does not exist, or can't be used.
    #[error(transparent)]
    Module(#[from] ModuleError),
}
