//! Rules that a step can violate.

use crate::goal::GoalError;
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
    /// The step is only for real machines.
    #[error("this is done to real machines; emulated ones have no CXL devices")]
    RealMachineOnly,
}
