//! An entry of an error log, as the state file has it.

use crate::machine::Handle;
use serde::{Deserialize, Serialize};

/// An entry of an error log of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoggedError {
    /// The module.
    pub module: Handle,
    /// Its number in its log: from 1 to 65535, and then from 1 again.
    pub sequence: u16,
    /// The severity.
    pub level: ErrorLevel,
    /// The error.
    pub what: LoggedKind,
}

/// Severity of a logged error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorLevel {
    /// High severity.
    #[default]
    High,
    /// Low severity.
    Low,
}

/// A logged error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum LoggedKind {
    /// A temperature has tripped the alarm of the user. The only one of the thermal log.
    Temperature {
        /// The sensor.
        sensor: TemperatureSensor,
        /// The temperature in degrees Celsius.
        celsius: i32,
    },
    /// A range of the media can't be read.
    Uncorrectable {
        /// Its address on the module (DPA).
        dpa: u64,
        /// Its length in bytes: a power of two.
        len: u64,
        /// The transaction that found it.
        found_by: FoundBy,
    },
    /// The remaining life has tripped the alarm of the user.
    PercentageRemaining,
    /// The health state has changed.
    HealthChange,
}

/// A sensor of a temperature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TemperatureSensor {
    /// That of the media.
    Media,
    /// That of the controller.
    Controller,
}

/// The transaction that found a media error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundBy {
    /// The module's own patrol.
    PatrolScrub,
    /// A scrub of an address range, which the kernel starts.
    AddressRangeScrub,
}

impl LoggedError {
    /// Returns true if it is an entry of this log.
    pub(crate) fn is_in(&self, module: Handle, is_thermal: bool, level: ErrorLevel) -> bool {
        self.module == module && self.what.is_thermal() == is_thermal && self.level == level
    }

    /// Returns the number of the entry after one.
    pub(crate) fn after(sequence: u16) -> u16 {
        sequence % u16::MAX + 1
    }
}

impl LoggedKind {
    /// Returns true if the thermal log has it.
    pub(crate) fn is_thermal(self) -> bool {
        matches!(self, LoggedKind::Temperature { .. })
    }
}
