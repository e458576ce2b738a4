//! Activation of the staged firmware of modules by their platform.

use serde::Deserialize;

/// The way in which a platform activates the staged firmware of its modules, in ndctl's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirmwareActivation {
    /// At a start.
    #[default]
    Reset,
    /// While the machine is suspended.
    Suspend,
    /// While the machine runs.
    Live,
}

impl FirmwareActivation {
    /// Returns ndctl's word.
    pub fn as_str(self) -> &'static str {
        match self {
            FirmwareActivation::Reset => "reset",
            FirmwareActivation::Suspend => "suspend",
            FirmwareActivation::Live => "live",
        }
    }
}
