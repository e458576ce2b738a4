//! Threshold of a sensor, and its alarm.

use serde::{Deserialize, Serialize};

/// Threshold of a sensor, and its alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmartAlarm {
    /// True if the module raises the alarm.
    pub enabled: bool,
    /// The threshold, in the unit of the sensor.
    pub threshold: i32,
}

/// Change of a threshold and its alarm. `None` keeps the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlarmChange {
    /// The new threshold.
    pub threshold: Option<i32>,
    /// True to enable the alarm, false to disable it.
    pub enabled: Option<bool>,
}

impl SmartAlarm {
    /// Returns the alarm with this change.
    pub(super) fn with(self, change: AlarmChange) -> SmartAlarm {
        SmartAlarm {
            enabled: change.enabled.unwrap_or(self.enabled),
            threshold: change.threshold.unwrap_or(self.threshold),
        }
    }
}
