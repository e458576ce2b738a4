//! `ipmctl show -sensor`.

use super::display::{DisplayOptions, UNKNOWN, is_first_generation, print};
use super::error::ShowError;
use crate::goal::Targets;
use crate::listing::{Column, Record, Records};
use crate::machine::{Health, IpmctlGeneration, Module, ModuleError};
use crate::platform::Platform;

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
        let sensor = |(name, value): (&'static str, String)| {
            with_thresholds(
                platform,
                module,
                name,
                Record::new().with("Type", name).with("CurrentValue", value),
            )
        };
        let record = Record::new().with("DimmID", module.handle).with_parts(readings.map(sensor).collect());
        records.push(record);
    }
    let head = Some("DimmID");
    let records = Records { list_tag: "SensorList", tag: "Dimm", part_tag: "Sensor", head, records };
    print(records, if is_first_generation(&platform.machine) { &FIRST } else { &LATER }, display)
}

/// Returns the sensors of a module with their values, in ipmctl's order.
fn readings(platform: &Platform, module: &Module) -> Vec<(&'static str, String)> {
    let sensors = &module.sensors;
    let mut readings = vec![
        ("Health", module.health.as_str().to_owned()),
        ("MediaTemperature", format!("{}C", sensors.media_celsius)),
        ("ControllerTemperature", format!("{}C", sensors.controller_celsius)),
        ("PercentageRemaining", format!("{}%", sensors.remaining_percent)),
        ("LatchedDirtyShutdownCount", sensors.latched_dirty_shutdowns.to_string()),
        ("PowerOnTime", format!("{}s", sensors.power_on_seconds)),
        ("UpTime", format!("{}s", sensors.up_seconds)),
        ("PowerCycles", (sensors.power_cycles + platform.state.boots).to_string()),
        ("FwErrorCount", sensors.firmware_errors.to_string()),
        ("UnlatchedDirtyShutdownCount", sensors.unlatched_dirty_shutdowns.to_string()),
    ];
    if platform.machine.profile.ipmctl == IpmctlGeneration::Two {
        // Temperatures are constant here.
        readings.push(("MaxMediaTemperature", format!("{}C", sensors.media_celsius)));
        readings.push(("MaxControllerTemperature", format!("{}C", sensors.controller_celsius)));
    }
    readings
}

/// Adds the thresholds of a sensor, which machine files do not have, by their names in each generation.
fn with_thresholds(platform: &Platform, module: &Module, sensor: &'static str, record: Record) -> Record {
    let enabled = match platform.machine.profile.ipmctl {
        IpmctlGeneration::One => return record.with("CurrentState", "Normal"),
        IpmctlGeneration::Two => "EnabledState",
        IpmctlGeneration::Three => "AlarmEnabled",
    };
    let celsius = match sensor {
        "MediaTemperature" => Some(module.sensors.media_celsius),
        "ControllerTemperature" => Some(module.sensors.controller_celsius),
        _ => None,
    };
    if celsius.is_none() && sensor != "PercentageRemaining" {
        return record;
    }
    let record = record.with("AlarmThreshold", UNKNOWN).with(enabled, UNKNOWN);
    let Some(celsius) = celsius else { return record };
    let thresholds = ["ThrottlingStopThreshold", "ThrottlingStartThreshold", "ShutdownThreshold"];
    let record = thresholds.into_iter().fold(record, |record, name| record.with(name, UNKNOWN));
    match platform.machine.profile.ipmctl {
        // Temperatures are constant here.
        IpmctlGeneration::Three => record.with("MaxTemperature", format!("{celsius}C")),
        _ => record,
    }
}

fn is(asked: &str, name: &str) -> bool {
    asked.eq_ignore_ascii_case(name)
}
