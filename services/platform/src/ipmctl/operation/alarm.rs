//! `ipmctl set -sensor`: the threshold of a sensor, and its alarm.

use crate::ipmctl::refusal::{Refusal, SET_SENSOR, Words};
use crate::ipmctl::syntax::Line;
use crate::ipmctl::values;
use crate::machine::{Handle, ModuleError};
use crate::platform::Platform;
use crate::smart::{self, AlarmChange, SmartChange, SmartError};
use std::ops::RangeInclusive;

/// A sensor with an alarm.
#[derive(Clone)]
struct Sensor {
    name: &'static str,
    /// Description of its change.
    what: &'static str,
    /// The thresholds that modules take, as the manual page ipmctl-set-sensor has them.
    range: RangeInclusive<u64>,
    /// Number and subject of the error for others.
    out_of_range: (u16, &'static str),
}

const SENSORS: [Sensor; 3] = [
    Sensor {
        name: "MediaTemperature",
        what: "Modify media temperature settings",
        range: 0..=85,
        out_of_range: (71, "media temperature"),
    },
    Sensor {
        name: "ControllerTemperature",
        what: "Modify controller temperature settings",
        range: 0..=102,
        out_of_range: (72, "controller temperature"),
    },
    Sensor {
        name: "PercentageRemaining",
        what: "Modify percentage remaining settings",
        range: 1..=99,
        out_of_range: (73, "capacity"),
    },
];
/// The error for an alarm that is neither off nor on: ipmctl has none of its own.
const NO_SWITCH: (u16, &str) = (5, "Invalid parameter");

/// A change of a sensor on some modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SensorChange {
    /// The modules.
    pub modules: Vec<Handle>,
    sensor: usize,
    alarm: AlarmChange,
    generation: Words,
}

impl SensorChange {
    /// Reads the values of a line.
    pub(super) fn of_line(
        line: &Line,
        modules: Vec<Handle>,
        words: Words,
    ) -> Result<SensorChange, Box<Refusal>> {
        let number = |name: &'static str| match line.property(name) {
            None => Ok(None),
            Some(text) => match values::number(text) {
                Some(number) => Ok(Some(number)),
                None => Err(Box::new(Refusal::value(&format!("property {name}"), text, words))),
            },
        };
        let (threshold, switch) = (number("AlarmThreshold")?, number("AlarmEnabled")?);
        if threshold.is_none() && switch.is_none() {
            return Err(Box::new(Refusal::incomplete("give AlarmThreshold, AlarmEnabled, or both")));
        }
        let name = line.target("-sensor").unwrap_or_default();
        let sensor = SENSORS.iter().position(|sensor| sensor.name.eq_ignore_ascii_case(name));
        let sensor = sensor.ok_or_else(|| Box::new(Refusal::value("target -sensor", name, words)))?;
        let Sensor { what, range, out_of_range: (code, subject), .. } = SENSORS[sensor].clone();
        let refused = |code: u16, text: &str, why: String| {
            Box::new(Refusal::of_modules(&SET_SENSOR.named(what), &modules, (code, text), words, why))
        };
        if let Some(value) = threshold.filter(|value| !range.contains(value)) {
            let (low, high) = (range.start(), range.end());
            let text = format!("Given {subject} is out of range <{low},{high}>");
            return Err(refused(code, &text, format!("{value} is no threshold: {low} to {high} are")));
        }
        if let Some(value) = switch.filter(|value| *value > 1) {
            let (code, text) = NO_SWITCH;
            return Err(refused(code, text, format!("AlarmEnabled is 0 or 1, not {value}")));
        }
        let threshold = threshold.and_then(|value| i32::try_from(value).ok());
        let alarm = AlarmChange { threshold, enabled: switch.map(|value| value == 1) };
        Ok(SensorChange { modules, sensor, alarm, generation: words })
    }

    /// Changes the modules. Returns the lines that ipmctl prints.
    ///
    /// # Errors
    /// Fails if a module does not exist or is dead.
    pub fn apply(&self, platform: &mut Platform) -> Result<String, SmartError> {
        let alarm = |sensor: usize| if sensor == self.sensor { self.alarm } else { AlarmChange::default() };
        let change = SmartChange {
            media_alarm: alarm(0),
            controller_alarm: alarm(1),
            spares_alarm: alarm(2),
            ..SmartChange::default()
        };
        for module in &self.modules {
            let index = platform.machine.module_index(*module);
            let index = index.ok_or(ModuleError::UnknownModule { module: *module })?;
            smart::change(platform, index, &change)?;
        }
        Ok(SET_SENSOR.named(SENSORS[self.sensor].what).done(&self.modules, self.generation.0))
    }
}
