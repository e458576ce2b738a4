//! Preferences of ipmctl: what a tool keeps for the users of a machine.

use crate::listing::Unit;
use serde::{Deserialize, Serialize};

/// Preferences of ipmctl. The defaults are those of the factory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Preferences {
    /// Identifiers of modules in listings (CLI_DEFAULT_DIMM_ID).
    pub dimm_id: DimmId,
    /// Unit of capacities in listings without `-units` (CLI_DEFAULT_SIZE).
    pub size: Unit,
    /// Interleaving of new sets (APPDIRECT_SETTINGS). Emulated firmware has one, so it is only shown.
    pub app_direct: AppDirectSettings,
    /// Smallest persistent capacity of a module (APPDIRECT_GRANULARITY), which only generation 1 has. It is only shown.
    pub granularity: Granularity,
    /// Messages in the log of ipmctl (DBG_LOG_LEVEL). It is only shown.
    pub log_level: LogLevel,
}

/// Identifiers of modules in listings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DimmId {
    /// The handle, as `0x0001`.
    #[default]
    #[serde(rename = "HANDLE")]
    Handle,
    /// The identity, as `8089-a2-2140-00000001`.
    #[serde(rename = "UID")]
    Uid,
}

/// Interleaving of new sets: sizes over memory controllers and channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AppDirectSettings {
    /// The choice of firmware.
    #[default]
    #[serde(rename = "RECOMMENDED")]
    Recommended,
    /// By 4 KiB over both.
    #[serde(rename = "4KB_4KB")]
    By4Kib,
}

/// Smallest persistent capacity of a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Granularity {
    /// The choice of ipmctl.
    #[default]
    #[serde(rename = "RECOMMENDED")]
    Recommended,
    /// 1 GiB.
    #[serde(rename = "1")]
    OneGib,
}

/// Messages in the log of ipmctl, from 0, none, to 4, all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct LogLevel(u8);

impl Preferences {
    /// Returns true if no preference was changed.
    pub(crate) fn is_default(&self) -> bool {
        *self == Preferences::default()
    }
}

impl DimmId {
    /// The values with their words.
    pub(crate) const ALL: [(DimmId, &'static str); 2] = [(DimmId::Handle, "HANDLE"), (DimmId::Uid, "UID")];
}

impl AppDirectSettings {
    /// The values with their words.
    pub(crate) const ALL: [(AppDirectSettings, &'static str); 2] =
        [(AppDirectSettings::Recommended, "RECOMMENDED"), (AppDirectSettings::By4Kib, "4KB_4KB")];
}

impl Granularity {
    /// The values with their words.
    pub(crate) const ALL: [(Granularity, &'static str); 2] =
        [(Granularity::Recommended, "RECOMMENDED"), (Granularity::OneGib, "1")];
}

impl TryFrom<u8> for LogLevel {
    type Error = &'static str;

    fn try_from(level: u8) -> Result<LogLevel, &'static str> {
        if level <= 4 { Ok(LogLevel(level)) } else { Err("a log level is 0 to 4") }
    }
}

impl From<LogLevel> for u8 {
    fn from(level: LogLevel) -> u8 {
        level.0
    }
}

/// Returns the word of a value.
pub(crate) fn word_of<T: Copy + PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter().find(|(known, _)| *known == value).map_or("", |(_, word)| word)
}

/// Returns the value of a word, in any case.
pub(crate) fn value_of<T: Copy>(all: &[(T, &'static str)], word: &str) -> Option<T> {
    all.iter().find(|(_, known)| known.eq_ignore_ascii_case(word)).map(|(value, _)| *value)
}
