//! Errors of updates and activations of firmware.

use super::version::FirmwareVersion;
use crate::machine::ModuleError;
use thiserror::Error;

/// Firmware can't be staged, armed or activated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FirmwareError {
    /// The module does not exist.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// The module does not answer.
    #[error("nmem{index} is dead: it takes no firmware; name another module")]
    Dead {
        /// N of nmemN.
        index: usize,
    },
    /// The module takes no updates: it is one of a virtual machine, or does not report its version.
    #[error("nmem{index} takes no updates of its firmware; `can_update` is true for those that do")]
    Unsupported {
        /// N of nmemN.
        index: usize,
    },
    /// The image is for modules of another generation.
    #[error(
        "the image has version {image}, and nmem{index} runs {running}: it is for modules of another generation; \
         choose one whose version starts with the same number"
    )]
    Product {
        /// N of nmemN.
        index: usize,
        /// Version of the image.
        image: FirmwareVersion,
        /// Version that runs.
        running: FirmwareVersion,
    },
    /// An image is staged already.
    #[error("nmem{index} has {staged} staged; activate it first, or replace it")]
    Staged {
        /// N of nmemN.
        index: usize,
        /// The staged version.
        staged: FirmwareVersion,
    },
    /// The platform activates firmware at a start only.
    #[error("nmem{index} can't be armed: its platform activates firmware at a start only; start the machine")]
    NoActivation {
        /// N of nmemN.
        index: usize,
    },
    /// Too many modules would be armed.
    #[error(
        "nmem{index} is not armed: {modules} modules take {modules} s to activate, and the platform has {most}; \
         activate the armed ones first, or arm it anyway"
    )]
    Overflow {
        /// N of nmemN.
        index: usize,
        /// Armed modules, with this one.
        modules: usize,
        /// Time of the platform, in seconds.
        most: usize,
    },
    /// No module of the bus takes updates.
    #[error("{bus} has no modules that take updates of their firmware")]
    NoUpdates {
        /// The bus.
        bus: String,
    },
    /// The platform activates firmware at a start only.
    #[error("{bus} activates firmware at a start only; start the machine")]
    NeedsStart {
        /// The bus.
        bus: String,
    },
    /// No module of the bus is armed.
    #[error("{bus} has no armed modules; arm some")]
    NotArmed {
        /// The bus.
        bus: String,
    },
    /// The activation takes longer than the platform has time.
    #[error(
        "{bus} has {modules} armed modules, which take {modules} s to activate, and the platform has {most}; disarm \
         some, or lift the limit"
    )]
    Timeout {
        /// The bus.
        bus: String,
        /// Armed modules.
        modules: usize,
        /// Time of the platform, in seconds.
        most: usize,
    },
}
