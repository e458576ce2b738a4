//! `ipmctl show -goal`, and the output of `create -goal`.

use super::display::{DisplayOptions, capacity, dimm_id, empty_result, is_first_generation, print};
use super::error::ShowError;
use crate::goal::Targets;
use crate::listing::{Column, Format, Record, Records, Value};
use crate::platform::Platform;
use crate::state::Goal;
use std::collections::BTreeSet;

const COLUMNS: [Column; 5] = [
    Column("SocketID", 9),
    Column("DimmID", 22),
    Column("MemorySize", 18),
    Column("AppDirect1Size", 18),
    Column("AppDirect2Size", 18),
];

/// Names of the values for each set in a module's goal.
const SET_VALUES: [[&str; 3]; 2] = [
    ["AppDirect1Size", "AppDirect1Index", "AppDirect1Settings"],
    ["AppDirect2Size", "AppDirect2Index", "AppDirect2Settings"],
];

const NO_GOALS: &str = "There are no goal configs defined in the system.\n\
                        Please use 'show -region' to display currently valid persistent memory regions.";

const NOT_APPLICABLE: Value = Value::absent("N/A");

const REBOOT: &str = "A reboot is required to process new memory allocation goals.\n";

/// Formats the goals that the user must confirm before they are created.
///
/// # Errors
/// Those of `show -goal`.
pub fn goals_to_confirm(
    platform: &Platform,
    goals: &[Goal],
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    Ok(format!("The following configuration will be applied:\n{}", goal_table(platform, goals, display)?))
}

/// Formats the goals after they were created. Generation 3 prints no heading if it did not ask.
///
/// # Errors
/// Those of `show -goal`.
pub fn created_goals(
    platform: &Platform,
    goals: &[Goal],
    display: &DisplayOptions,
    asked: bool,
) -> Result<String, ShowError> {
    let table = goal_table(platform, goals, display)?;
    Ok(match display.format {
        Format::Text if !asked && !is_first_generation(&platform.machine) => table + REBOOT,
        Format::Text => format!("Created following region configuration goal\n{table}{REBOOT}"),
        Format::Xml | Format::Json => table,
    })
}

pub(super) fn show(
    platform: &Platform,
    targets: &Targets,
    display: &DisplayOptions,
) -> Result<String, ShowError> {
    let modules = targets.resolve(&platform.machine)?;
    let goals =
        modules.iter().filter_map(|module| platform.state.goal(module.handle)).cloned().collect::<Vec<_>>();
    if goals.is_empty() {
        return Ok(empty_result(NO_GOALS, display));
    }
    let table = goal_table(platform, &goals, display)?;
    Ok(if display.format == Format::Text { table + REBOOT } else { table })
}

fn goal_table(platform: &Platform, goals: &[Goal], display: &DisplayOptions) -> Result<String, ShowError> {
    let display = &display.with_unit(platform);
    let record = |goal: &Goal| {
        let record = Record::new()
            .with("SocketID", format!("{:#06x}", goal.module.socket()))
            .with("DimmID", dimm_id(platform, goal.module))
            .with("MemorySize", capacity(&platform.machine, goal.memory, display));
        let record =
            SET_VALUES.iter().enumerate().fold(record, |record, (index, [size, number, settings])| {
                let share = goal.shares.get(index);
                record
                    .with(size, capacity(&platform.machine, share.map_or(0, |share| share.size), display))
                    .with(number, share.map_or(NOT_APPLICABLE, |share| set_number(share.set)))
                    .with(
                        settings,
                        share.map_or(NOT_APPLICABLE, |share| {
                            settings_text(ways(platform, share.set, goals)).into()
                        }),
                    )
            });
        record.with("Status", "New")
    };
    let records = goals.iter().map(record).collect();
    let head = Some("DimmID");
    let records = Records { list_tag: "ConfigGoalList", tag: "ConfigGoal", part_tag: "", head, records };
    print(records, &COLUMNS, display)
}

/// Returns the number of a set as ipmctl counts, from 1.
fn set_number(set: u32) -> Value {
    let number = u64::from(set) + 1;
    Value::number(number, number.to_string())
}

/// Returns the number of modules in a set, by these goals and the pending ones.
fn ways(platform: &Platform, set: u32, goals: &[Goal]) -> usize {
    let all = platform.state.goals.iter().chain(goals);
    let same = all.filter(|goal| goal.shares.iter().any(|share| share.set == set));
    same.map(|goal| goal.module).collect::<BTreeSet<_>>().len()
}

/// Returns ipmctl's word for the interleaving: number of modules and interleave sizes.
fn settings_text(ways: usize) -> String {
    if ways == 1 { "x1".to_owned() } else { format!("x{ways} - 4KB IMC x 4KB Channel") }
}
