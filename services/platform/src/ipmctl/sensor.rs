//! `ipmctl show -sensor`.

use super::display::{DisplayOptions, UNKNOWN, dimm_id, is_first_generation, print};
use super::error::ShowError;
use crate::goal::Targets;
use crate::listing::{Column, Record, Records, Value};
use crate::machine::{Health, IpmctlGeneration, Module, ModuleError};
use crate::platform::Platform;
use crate::smart;

const FIRST: [Column; 4] =
    [Column("DimmID", 22), Column("Type", 30), Column("CurrentValue", 20), Column("CurrentState", 15)];
const LATER: [Column; 3] = [Column("DimmID", 22), Column("Type", 30), Column("CurrentValue", 20)];

pub(super) fn show(
    platform: &Platform,
    kinds: &[String],
    targets: &Targets,
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    let mut modules = targets.resolve(&platform.machine)?;
    if targets.modules.is_empty() {
        modules.retain(|module| module.health != Health::NonFunctional);
    }
    let mut records = Vec::new();
    for module in modules {
        if module.health == Health::NonFunctional {
            return Err(ModuleError::DeadModule { module: module.handle }.into());
        }
        let readings = readings(platform, module);
        if let Some(kind) = kinds.iter().find(|kind| !readings.iter().any(|(known, _)| is(kind, known))) {
            return Err(ShowError::UnknownValue { name: kind.clone() });
        }
        let asked = |name: &str| kinds.is_empty() || kinds.iter().any(|kind| is(kind, name));
        let readings = readings.into_iter().filter(|(name, _)| asked(name));
        let sensor = |(name, value): (&'static str, Value)| {
            with_thresholds(
                platform,
                module,
                name,
                Record::new().with("Type", name).with("CurrentValue", value),
            )
        };
        let record = Record::new()
            .with("DimmID", dimm_id(platform, module.handle))
            .with_parts(readings.map(sensor).collect());
        records.push(record);
    }
    let head = Some("DimmID");
    let records = Records { list_tag: "SensorList", tag: "Dimm", part_tag: "Sensor", head, records };
    print(records, if is_first_generation(&platform.machine) { &FIRST } else { &LATER }, display)
}

/// Returns the sensors of a module with their values, in ipmctl's order.
fn readings(platform: &Platform, module: &Module) -> Vec<(&'static str, Value)> {
    let sensors = &module.sensors;
    let report = smart::report(platform, module);
    let mut readings = vec![
        ("Health", report.health.as_str().into()),
        ("MediaTemperature", reported(report.media_celsius, "C")),
        ("ControllerTemperature", reported(report.controller_celsius, "C")),
        ("PercentageRemaining", reported(report.spares_percent, "%")),
        ("LatchedDirtyShutdownCount", measured(report.dirty_shutdowns, "")),
        ("PowerOnTime", measured(sensors.power_on_seconds, "s")),
        ("UpTime", measured(sensors.up_seconds, "s")),
        ("PowerCycles", measured(sensors.power_cycles + platform.state.boots, "")),
        ("FwErrorCount", measured(sensors.firmware_errors, "")),
        ("UnlatchedDirtyShutdownCount", measured(report.unlatched_dirty_shutdowns, "")),
    ];
    if platform.machine.profile.ipmctl == IpmctlGeneration::Two {
        // The sensors measure the same all the time; an injected temperature is none that the module had.
        readings.push(("MaxMediaTemperature", measured(sensors.media_celsius, "C")));
        readings.push(("MaxControllerTemperature", measured(sensors.controller_celsius, "C")));
    }
    readings
}

/// Adds the thresholds of a sensor, by their names in each generation.
fn with_thresholds(platform: &Platform, module: &Module, sensor: &'static str, record: Record) -> Record {
    let report = smart::report(platform, module);
    let (alarm, unit, celsius) = match sensor {
        "MediaTemperature" => (report.media_alarm, "C", Some(module.sensors.media_celsius)),
        "ControllerTemperature" => (report.controller_alarm, "C", Some(module.sensors.controller_celsius)),
        "PercentageRemaining" => (report.spares_alarm, "%", None),
        _ if is_first_generation(&platform.machine) => return record.with("CurrentState", "Normal"),
        _ => return record,
    };
    let enabled = match platform.machine.profile.ipmctl {
        IpmctlGeneration::One => {
            return record.with("CurrentState", if alarm.tripped { "NonCritical" } else { "Normal" });
        }
        IpmctlGeneration::Two => "EnabledState",
        IpmctlGeneration::Three => "AlarmEnabled",
    };
    let record = record
        .with("AlarmThreshold", reported(alarm.threshold, unit))
        .with(enabled, u16::from(alarm.enabled));
    let Some(celsius) = celsius else { return record };
    let thresholds = ["ThrottlingStopThreshold", "ThrottlingStartThreshold", "ShutdownThreshold"];
    let record = thresholds.into_iter().fold(record, |record, name| record.with(name, UNKNOWN));
    match platform.machine.profile.ipmctl {
        IpmctlGeneration::Three => record.with("MaxTemperature", measured(celsius, "C")),
        _ => record,
    }
}

/// Returns a value of a report, in a unit.
fn reported(number: i32, unit: &str) -> Value {
    Value::signed(number.into(), format!("{number}{unit}"))
}

/// Returns the value of a sensor, in a unit.
fn measured(number: impl Into<u64>, unit: &str) -> Value {
    let number = number.into();
    Value::number(number, format!("{number}{unit}"))
}

fn is(asked: &str, name: &str) -> bool {
    asked.eq_ignore_ascii_case(name)
}
