//! Observer of one module: compares what the module reports now with what it reported before.

use crate::machine::Module;
use crate::ndctl::NdModule;
use crate::platform::Platform;
use crate::smart::{self, EventCounts, SmartEvent};

/// The report of a module at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The health state, or the flags of a real module: any text that differs if the health does.
    health: String,
    /// The events whose condition holds.
    holding: Vec<SmartEvent>,
    /// Count of each event; `None` if the module does not count them.
    counts: Option<EventCounts>,
}

/// Events that an observer saw since its last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The observed events, in ndctl's order, each with a flag: true if it came, or if its condition holds.
    pub events: Vec<(SmartEvent, bool)>,
    /// True if an event came since the last look.
    pub is_new: bool,
    /// Number of events that came before another one of the same kind, since the last look.
    pub coalesced: u64,
}

/// Observer of one module.
#[derive(Clone, Debug)]
pub struct Observer {
    events: Vec<SmartEvent>,
    first_health: String,
    last: Subject,
}

impl Subject {
    /// Returns what a module of an emulated machine reports.
    pub fn of_module(platform: &Platform, module: &Module) -> Subject {
        let report = smart::report(platform, module);
        Subject {
            health: report.health.as_str().to_owned(),
            holding: SmartEvent::ALL.into_iter().filter(|event| report.holds(*event)).collect(),
            counts: Some(smart::events(platform, module)),
        }
    }

    /// Returns what the kernel shows of a real module.
    pub fn of_flags(module: &NdModule) -> Subject {
        Subject { health: module.flags.join(" "), holding: Vec::new(), counts: None }
    }
}

impl Observer {
    /// Starts to observe these events of a module.
    pub fn new(events: &[SmartEvent], now: Subject) -> Observer {
        let events = SmartEvent::ALL.into_iter().filter(|event| events.contains(event)).collect();
        Observer { events, first_health: now.health.clone(), last: now }
    }

    /// Returns the state at the start: the events whose conditions hold.
    pub fn first(&self) -> Observed {
        let events: Vec<_> =
            self.events.iter().map(|event| (*event, self.last.holding.contains(event))).collect();
        let is_new = events.iter().any(|(_, flag)| *flag);
        Observed { events, is_new, coalesced: 0 }
    }

    /// Looks at the module.
    pub fn look(&mut self, now: Subject) -> Observed {
        let came = |event: SmartEvent| match (&now.counts, &self.last.counts) {
            (Some(counts), Some(last)) => counts.of(event).saturating_sub(last.of(event)),
            _ => u64::from(event == SmartEvent::HealthState && now.health != self.last.health),
        };
        let counts: Vec<(SmartEvent, u64)> = self.events.iter().map(|event| (*event, came(*event))).collect();
        let is_sick = now.health != self.first_health;
        let flag = |event: SmartEvent, count: u64| {
            count > 0 || now.holding.contains(&event) || (event == SmartEvent::HealthState && is_sick)
        };
        let observed = Observed {
            events: counts.iter().map(|(event, count)| (*event, flag(*event, *count))).collect(),
            is_new: counts.iter().any(|(_, count)| *count > 0),
            coalesced: counts.iter().map(|(_, count)| count.saturating_sub(1)).sum(),
        };
        self.last = now;
        observed
    }
}
