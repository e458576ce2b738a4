//! Rules that a step can violate.

use crate::goal::GoalError;
use crate::machine::Handle;
use crate::namespace::NamespaceError;
use thiserror::Error;

/// A step is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RuleError {
    /// A goal is impossible.
    #[error(transparent)]
    Goal(#[from] GoalError),
    /// A namespace is impossible.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A module has a passphrase, so firmware applies no goal to it.
    #[error(
        "firmware applies no goal to a set with module {module}, which has a passphrase; remove it first"
    )]
    Passphrase {
        /// The module.
        module: Handle,
    },
    /// The step is only for real machines.
    #[error("this is done to real machines; emulated ones have no CXL devices")]
    RealMachineOnly,
}
