//! SMART of one module, as the state file has it.

use super::alarm::SmartAlarm;
use super::event::EventCounts;
use crate::machine::Handle;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Temperatures that a report can have, in degrees Celsius: its 16 bits have a sign and sixteenths of a degree.
pub(crate) const CELSIUS: RangeInclusive<i32> = -2047..=2047;
/// The largest value in percent.
pub(crate) const PERCENT_MAX: i32 = 100;

/// SMART of a module. A module without an entry in the state has the sensors of the machine file and the alarms of
/// the factory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModuleSmart {
    /// The module.
    pub module: Handle,
    /// Injected temperature of the media, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_celsius: Option<i32>,
    /// Injected temperature of the controller, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_celsius: Option<i32>,
    /// Injected spares, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spares_percent: Option<i32>,
    /// True if the health state is injected: fatal.
    #[serde(default)]
    pub fatal: bool,
    /// True if the next start finds a dirty shutdown.
    #[serde(default)]
    pub unsafe_shutdown: bool,
    /// True if the last shutdown was dirty.
    #[serde(default)]
    pub last_shutdown_dirty: bool,
    /// Dirty shutdowns since the machine was made.
    #[serde(default)]
    pub dirty_shutdowns: u32,
    /// Alarm of the media's temperature.
    pub media_alarm: SmartAlarm,
    /// Alarm of the controller's temperature.
    pub controller_alarm: SmartAlarm,
    /// Alarm of the spares.
    pub spares_alarm: SmartAlarm,
    /// The events that were raised.
    #[serde(default)]
    pub events: EventCounts,
}

impl ModuleSmart {
    /// Returns the entry of a module from the factory. The thresholds are those that modules of Intel report.
    pub(super) fn of_factory(module: Handle) -> ModuleSmart {
        let enabled = |threshold| SmartAlarm { enabled: true, threshold };
        ModuleSmart {
            module,
            media_celsius: None,
            controller_celsius: None,
            spares_percent: None,
            fatal: false,
            unsafe_shutdown: false,
            last_shutdown_dirty: false,
            dirty_shutdowns: 0,
            media_alarm: enabled(82),
            controller_alarm: enabled(98),
            spares_alarm: enabled(50),
            events: EventCounts::default(),
        }
    }
}
