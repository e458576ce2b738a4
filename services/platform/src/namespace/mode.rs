//! Modes of namespaces, and places of page maps.

use serde::{Deserialize, Serialize};

/// Mode of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Page map for file systems with DAX.
    #[default]
    Fsdax,
    /// Page map for a character device.
    Devdax,
    /// BTT, which makes sectors atomic.
    Sector,
    /// Neither page map nor BTT.
    Raw,
}

impl Mode {
    /// Returns ndctl's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Fsdax => "fsdax",
            Mode::Devdax => "devdax",
            Mode::Sector => "sector",
            Mode::Raw => "raw",
        }
    }
}

/// Place of a page map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MapLocation {
    /// In DRAM.
    Mem,
    /// In the namespace.
    #[default]
    Dev,
}
