//! Events of a module that `ndctl monitor` reports.

use serde::{Deserialize, Serialize};

/// An event of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SmartEvent {
    /// The spares have reached their threshold.
    SparesRemaining,
    /// The temperature of the media has reached its threshold.
    MediaTemperature,
    /// The temperature of the controller has reached its threshold.
    ControllerTemperature,
    /// The health state has changed.
    HealthState,
    /// The last shutdown was dirty.
    UncleanShutdown,
}

impl SmartEvent {
    /// All events, in ndctl's order.
    pub const ALL: [SmartEvent; 5] = [
        SmartEvent::SparesRemaining,
        SmartEvent::MediaTemperature,
        SmartEvent::ControllerTemperature,
        SmartEvent::HealthState,
        SmartEvent::UncleanShutdown,
    ];

    /// Returns ndctl's name.
    pub fn as_str(self) -> &'static str {
        match self {
            SmartEvent::SparesRemaining => "dimm-spares-remaining",
            SmartEvent::MediaTemperature => "dimm-media-temperature",
            SmartEvent::ControllerTemperature => "dimm-controller-temperature",
            SmartEvent::HealthState => "dimm-health-state",
            SmartEvent::UncleanShutdown => "dimm-unclean-shutdown",
        }
    }

    /// Returns the event with this name.
    pub fn parse(name: &str) -> Option<SmartEvent> {
        SmartEvent::ALL.into_iter().find(|event| event.as_str() == name)
    }
}

/// Counts of the events that a module raised since the machine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventCounts {
    spares_remaining: u64,
    media_temperature: u64,
    controller_temperature: u64,
    health_state: u64,
    unclean_shutdown: u64,
}

impl EventCounts {
    /// Returns the count of an event.
    pub fn of(&self, event: SmartEvent) -> u64 {
        match event {
            SmartEvent::SparesRemaining => self.spares_remaining,
            SmartEvent::MediaTemperature => self.media_temperature,
            SmartEvent::ControllerTemperature => self.controller_temperature,
            SmartEvent::HealthState => self.health_state,
            SmartEvent::UncleanShutdown => self.unclean_shutdown,
        }
    }

    /// Counts an event.
    pub(super) fn raise(&mut self, event: SmartEvent) {
        let count = match event {
            SmartEvent::SparesRemaining => &mut self.spares_remaining,
            SmartEvent::MediaTemperature => &mut self.media_temperature,
            SmartEvent::ControllerTemperature => &mut self.controller_temperature,
            SmartEvent::HealthState => &mut self.health_state,
            SmartEvent::UncleanShutdown => &mut self.unclean_shutdown,
        };
        *count = count.saturating_add(1);
    }
}
