//! Goals: the partitioning of modules from the next reboot on.
//!
//! `docs/ipmctl-rules.md` has the rules with their sources.

pub(crate) mod error;
mod partition;
mod request;
mod rules;
mod warning;

pub use error::GoalError;
pub(crate) use partition::{WAYS, parts};
pub use partition::{clear, create, delete, plan};
pub use request::{GoalRequest, PersistentKind, Targets};
pub(crate) use rules::{check_create, check_ratio, target_modules};
pub use warning::{GoalWarning, warnings};
