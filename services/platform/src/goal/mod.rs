//! Goals: the partitioning of modules from the next reboot on.

pub(crate) mod error;
mod partition;
mod request;

pub use error::GoalError;
pub(crate) use partition::WAYS;
pub use partition::{create, delete, plan};
pub use request::{GoalRequest, PersistentKind, Targets};
