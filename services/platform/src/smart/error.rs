//! Errors of changes of SMART.

use super::module_smart::{CELSIUS, PERCENT_MAX};
use crate::machine::ModuleError;
use thiserror::Error;

/// SMART of a module can't be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SmartError {
    /// The module does not exist.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// The module does not answer.
    #[error("nmem{index} is dead: it takes no SMART command; name another module")]
    Dead {
        /// N of nmemN.
        index: usize,
    },
    /// A report can't have this temperature.
    #[error("a {what} can't be {found} degrees: give {} to {}", CELSIUS.start(), CELSIUS.end())]
    Celsius {
        /// The value.
        what: &'static str,
        /// The temperature that was given.
        found: i32,
    },
    /// A share is not in percent.
    #[error("a {what} can't be {found} %: give 0 to {PERCENT_MAX}")]
    Percent {
        /// The value.
        what: &'static str,
        /// The share that was given.
        found: i32,
    },
}
