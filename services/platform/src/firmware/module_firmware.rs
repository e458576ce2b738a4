//! Firmware of one module, as the state file has it.

use super::version::FirmwareVersion;
use crate::machine::Handle;
use serde::{Deserialize, Serialize};

/// Result of the last activation since the last start, as the kernel's `nmemX/firmware/result` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivationResult {
    /// None was tried.
    #[default]
    None,
    /// The staged firmware runs.
    Success,
    /// The module was armed, and nothing was staged.
    NotStaged,
}

/// Firmware of a module. A module without an entry in the state runs the firmware of the machine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModuleFirmware {
    /// The module.
    pub module: Handle,
    /// Version that runs; `None` for that of the machine file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<FirmwareVersion>,
    /// Version that runs after an activation or a start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<FirmwareVersion>,
    /// True if the next activation takes the module.
    #[serde(default)]
    pub armed: bool,
    /// Result of the last activation.
    #[serde(default)]
    pub result: ActivationResult,
}
