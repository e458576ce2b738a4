//! The report of a module: what its sensors measure, or what was injected, against the thresholds.

use super::alarm::SmartAlarm;
use super::event::{EventCounts, SmartEvent};
use super::module_smart::ModuleSmart;
use crate::machine::{Health, Module};
use crate::platform::Platform;

/// A threshold, and the state of its alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmReport {
    /// True if the module raises the alarm.
    pub enabled: bool,
    /// The threshold, in the unit of the sensor.
    pub threshold: i32,
    /// True if the alarm is enabled, and the value has reached the threshold.
    pub tripped: bool,
}

/// The report of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmartReport {
    /// Health state.
    pub health: Health,
    /// Temperature of the media, in degrees Celsius.
    pub media_celsius: i32,
    /// Temperature of the controller, in degrees Celsius.
    pub controller_celsius: i32,
    /// Remaining life, in percent.
    pub spares_percent: i32,
    /// Alarm of the media's temperature.
    pub media_alarm: AlarmReport,
    /// Alarm of the controller's temperature.
    pub controller_alarm: AlarmReport,
    /// Alarm of the spares.
    pub spares_alarm: AlarmReport,
    /// True if the last shutdown was dirty.
    pub last_shutdown_dirty: bool,
    /// Latched dirty shutdown count.
    pub dirty_shutdowns: u32,
    /// Unlatched dirty shutdown count.
    pub unlatched_dirty_shutdowns: u32,
}

impl SmartReport {
    /// Returns true if the condition of an event holds. A health state alone is no condition: its event is a change.
    pub fn holds(&self, event: SmartEvent) -> bool {
        match event {
            SmartEvent::SparesRemaining => self.spares_alarm.tripped,
            SmartEvent::MediaTemperature => self.media_alarm.tripped,
            SmartEvent::ControllerTemperature => self.controller_alarm.tripped,
            SmartEvent::HealthState => false,
            SmartEvent::UncleanShutdown => self.last_shutdown_dirty,
        }
    }
}

/// Returns what a module reports.
pub fn report(platform: &Platform, module: &Module) -> SmartReport {
    of_entry(module, &entry(platform, module))
}

/// Returns how often a module raised each event.
pub fn events(platform: &Platform, module: &Module) -> EventCounts {
    entry(platform, module).events
}

/// Returns the entry of a module, or that of the factory.
pub(crate) fn entry(platform: &Platform, module: &Module) -> ModuleSmart {
    let found = platform.state.smart.iter().find(|entry| entry.module == module.handle);
    found.copied().unwrap_or_else(|| ModuleSmart::of_factory(module.handle))
}

/// Returns what a module with this entry reports.
pub(super) fn of_entry(module: &Module, entry: &ModuleSmart) -> SmartReport {
    let sensors = &module.sensors;
    let media_celsius = entry.media_celsius.unwrap_or_else(|| measured(sensors.media_celsius));
    let controller_celsius = entry.controller_celsius.unwrap_or_else(|| measured(sensors.controller_celsius));
    let spares_percent = entry.spares_percent.unwrap_or_else(|| measured(sensors.remaining_percent));
    let alarm = |alarm: SmartAlarm, reached: bool| AlarmReport {
        enabled: alarm.enabled,
        threshold: alarm.threshold,
        tripped: alarm.enabled && reached,
    };
    SmartReport {
        health: if entry.fatal { module.health.max(Health::Fatal) } else { module.health },
        media_celsius,
        controller_celsius,
        spares_percent,
        media_alarm: alarm(entry.media_alarm, media_celsius >= entry.media_alarm.threshold),
        controller_alarm: alarm(
            entry.controller_alarm,
            controller_celsius >= entry.controller_alarm.threshold,
        ),
        spares_alarm: alarm(entry.spares_alarm, spares_percent <= entry.spares_alarm.threshold),
        last_shutdown_dirty: entry.last_shutdown_dirty,
        dirty_shutdowns: sensors.latched_dirty_shutdowns.saturating_add(entry.dirty_shutdowns),
        unlatched_dirty_shutdowns: sensors.unlatched_dirty_shutdowns.saturating_add(entry.dirty_shutdowns),
    }
}

/// Returns a value of a machine file, which may be too large for any sensor.
fn measured(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
