//! Changes of SMART: injections, thresholds and alarms, and the start of the machine.

use super::alarm::{AlarmChange, SmartAlarm};
use super::error::SmartError;
use super::event::SmartEvent;
use super::module_smart::{CELSIUS, ModuleSmart, PERCENT_MAX};
use super::report::{AlarmReport, SmartReport, entry, of_entry};
use crate::error_log::{self, ErrorLevel, LoggedKind, TemperatureSensor};
use crate::machine::Health;
use crate::nmem;
use crate::platform::Platform;
use crate::state;

/// Change of an injected value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Injection<T> {
    /// Leaves the value as it is.
    #[default]
    Keep,
    /// Replaces what the sensor measures.
    Inject(T),
    /// Reports again what the sensor measures.
    Uninject,
}

/// Change of a module by `ndctl inject-smart`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmartChange {
    /// Temperature of the media, in degrees Celsius.
    pub media_celsius: Injection<i32>,
    /// Temperature of the controller, in degrees Celsius.
    pub controller_celsius: Injection<i32>,
    /// Spares, in percent.
    pub spares_percent: Injection<i32>,
    /// The health state: fatal.
    pub fatal: Injection<()>,
    /// A dirty shutdown at the next start.
    pub unsafe_shutdown: Injection<()>,
    /// Alarm of the media's temperature.
    pub media_alarm: AlarmChange,
    /// Alarm of the controller's temperature.
    pub controller_alarm: AlarmChange,
    /// Alarm of the spares.
    pub spares_alarm: AlarmChange,
}

/// Changes SMART of the module nmemN, and counts the events that the change raises.
///
/// # Errors
/// Fails if the module does not exist or is dead, or if a value is out of range.
pub fn change(platform: &mut Platform, index: usize, change: &SmartChange) -> Result<(), SmartError> {
    let module = nmem::module(platform, index)?;
    if module.health == Health::NonFunctional {
        return Err(SmartError::Dead { index });
    }
    check(change)?;
    let old = entry(platform, module);
    let mut new = ModuleSmart {
        media_celsius: change.media_celsius.applied_to(old.media_celsius),
        controller_celsius: change.controller_celsius.applied_to(old.controller_celsius),
        spares_percent: change.spares_percent.applied_to(old.spares_percent),
        fatal: change.fatal.applied_to(old.fatal.then_some(())).is_some(),
        unsafe_shutdown: change.unsafe_shutdown.applied_to(old.unsafe_shutdown.then_some(())).is_some(),
        media_alarm: old.media_alarm.with(change.media_alarm),
        controller_alarm: old.controller_alarm.with(change.controller_alarm),
        spares_alarm: old.spares_alarm.with(change.spares_alarm),
        ..old
    };
    let (before, after) = (of_entry(module, &old), of_entry(module, &new));
    let alarms =
        [SmartEvent::SparesRemaining, SmartEvent::MediaTemperature, SmartEvent::ControllerTemperature];
    alarms.into_iter().filter(|event| after.holds(*event)).for_each(|event| new.events.raise(event));
    if before.health != after.health {
        new.events.raise(SmartEvent::HealthState);
    }
    let module = module.handle;
    for (level, what) in logged(change, &before, &after) {
        error_log::add(&mut platform.state.errors, module, level, what);
    }
    settle(platform, new);
    Ok(())
}

/// Returns what a module logs of a change: injected values that trip their alarm, and another health state.
fn logged(
    change: &SmartChange,
    before: &SmartReport,
    after: &SmartReport,
) -> impl Iterator<Item = (ErrorLevel, LoggedKind)> {
    let tripped = |injection: Injection<i32>, alarm: AlarmReport| match injection {
        Injection::Inject(value) if alarm.tripped => Some(value),
        _ => None,
    };
    let hot = |sensor, celsius| (ErrorLevel::Low, LoggedKind::Temperature { sensor, celsius });
    let media = tripped(change.media_celsius, after.media_alarm);
    let controller = tripped(change.controller_celsius, after.controller_alarm);
    let spares = tripped(change.spares_percent, after.spares_alarm);
    let is_changed = before.health != after.health;
    [
        media.map(|celsius| hot(TemperatureSensor::Media, celsius)),
        controller.map(|celsius| hot(TemperatureSensor::Controller, celsius)),
        spares.map(|_| (ErrorLevel::Low, LoggedKind::PercentageRemaining)),
        is_changed.then_some((ErrorLevel::High, LoggedKind::HealthChange)),
    ]
    .into_iter()
    .flatten()
}

/// Enables the alarms of these events on the module nmemN, as `ndctl monitor` does. Changes nothing if they are.
///
/// # Errors
/// Those of [`change`].
pub fn enable_alarms(platform: &mut Platform, index: usize, events: &[SmartEvent]) -> Result<(), SmartError> {
    let module = nmem::module(platform, index)?;
    let entry = entry(platform, module);
    let enabled = |event, alarm: SmartAlarm| AlarmChange {
        enabled: (events.contains(&event) && !alarm.enabled).then_some(true),
        threshold: None,
    };
    let alarms = SmartChange {
        media_alarm: enabled(SmartEvent::MediaTemperature, entry.media_alarm),
        controller_alarm: enabled(SmartEvent::ControllerTemperature, entry.controller_alarm),
        spares_alarm: enabled(SmartEvent::SparesRemaining, entry.spares_alarm),
        ..SmartChange::default()
    };
    if alarms == SmartChange::default() { Ok(()) } else { change(platform, index, &alarms) }
}

/// Changes SMART as a start of the machine does: injections end, and a module with an unsafe shutdown finds that its
/// last shutdown was dirty.
pub(crate) fn start(platform: &mut Platform) {
    let modules = &platform.machine.modules;
    for entry in &mut platform.state.smart {
        (entry.media_celsius, entry.controller_celsius, entry.spares_percent) = (None, None, None);
        let module = modules.iter().find(|module| module.handle == entry.module);
        let is_fatal = module.is_some_and(|module| module.health >= Health::Fatal);
        if std::mem::take(&mut entry.fatal) && !is_fatal {
            entry.events.raise(SmartEvent::HealthState);
        }
        entry.last_shutdown_dirty = std::mem::take(&mut entry.unsafe_shutdown);
        if entry.last_shutdown_dirty {
            entry.dirty_shutdowns = entry.dirty_shutdowns.saturating_add(1);
            entry.events.raise(SmartEvent::UncleanShutdown);
        }
    }
}

impl<T> Injection<T> {
    /// Returns the injected value after the change.
    fn applied_to(self, old: Option<T>) -> Option<T> {
        match self {
            Injection::Keep => old,
            Injection::Inject(value) => Some(value),
            Injection::Uninject => None,
        }
    }
}

/// Checks that all values are in range.
fn check(change: &SmartChange) -> Result<(), SmartError> {
    let injected = |injection| match injection {
        Injection::Inject(value) => Some(value),
        Injection::Keep | Injection::Uninject => None,
    };
    let celsius = [
        ("media temperature", injected(change.media_celsius)),
        ("media temperature threshold", change.media_alarm.threshold),
        ("controller temperature", injected(change.controller_celsius)),
        ("controller temperature threshold", change.controller_alarm.threshold),
    ];
    for (what, value) in celsius {
        if let Some(found) = value.filter(|value| !CELSIUS.contains(value)) {
            return Err(SmartError::Celsius { what, found });
        }
    }
    let percent = [
        ("share of spares", injected(change.spares_percent)),
        ("threshold of spares", change.spares_alarm.threshold),
    ];
    for (what, value) in percent {
        if let Some(found) = value.filter(|value| !(0..=PERCENT_MAX).contains(value)) {
            return Err(SmartError::Percent { what, found });
        }
    }
    Ok(())
}

/// Stores the entry of a module.
fn settle(platform: &mut Platform, entry: ModuleSmart) {
    state::put(&mut platform.state.smart, entry, |one| one.module);
}
