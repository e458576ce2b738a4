//! Errors of plans.

use super::impossible::Impossible;
use super::rule::RuleError;
use crate::sysfs::error::SysfsError;
use thiserror::Error;

/// There is no plan, or a plan can't be executed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No plan can fulfil the request.
    #[error("{0}")]
    Impossible(
        /// The request, the reason, and the nearest request that can be fulfilled.
        Box<Impossible>,
    ),
    /// A step is refused because the machine has changed since the plan was made.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// sysfs does not have a value that the plan needs.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
}

impl From<Impossible> for PlanError {
    fn from(impossible: Impossible) -> PlanError {
        PlanError::Impossible(Box::new(impossible))
    }
}
