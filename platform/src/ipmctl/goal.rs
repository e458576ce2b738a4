//! `ipmctl show -goal`, and what `create -goal` says.

use super::{Display, nothing, print};
use crate::error::PlatformError;
use crate::goal::Targets;
use crate::listing::{Column, Record, Records};
use crate::platform::Platform;
use crate::state::Goal;

const COLUMNS: [Column; 5] = [
    Column("SocketID", 9),
    Column("DimmID", 22),
    Column("MemorySize", 18),
    Column("AppDirect1Size", 18),
    Column("AppDirect2Size", 18),
];

const NO_GOALS: &str = "There are no goal configs defined in the system.\n\
                        Please use 'show -region' to display currently valid persistent memory regions.";

/// What is shown before goals are made, to be followed by a question.
///
/// # Errors
/// None that `show -goal` has not.
pub fn goals_to_confirm(
    platform: &Platform,
    goals: &[Goal],
    display: &Display,
) -> Result<String, PlatformError> {
    Ok(format!("The following configuration will be applied:\n{}", platform.goal_table(goals, display)?))
}

/// What is shown after goals were made.
///
/// # Errors
/// None that `show -goal` has not.
pub fn created_goals(
    platform: &Platform,
    goals: &[Goal],
    display: &Display,
) -> Result<String, PlatformError> {
    let table = platform.goal_table(goals, display)?;
    Ok(format!(
        "Created following region configuration goal\n{table}\
         A reboot is required to process new memory allocation goals.\n"
    ))
}

impl Platform {
    pub(super) fn show_goals(&self, targets: &Targets, display: &Display) -> Result<String, PlatformError> {
        let modules = self.targets(targets)?;
        let goals =
            modules.iter().filter_map(|module| self.state.goal(module.handle)).cloned().collect::<Vec<_>>();
        if goals.is_empty() { Ok(nothing(NO_GOALS, display)) } else { self.goal_table(&goals, display) }
    }

    fn goal_table(&self, goals: &[Goal], display: &Display) -> Result<String, PlatformError> {
        let record = |goal: &Goal| {
            let share = |index: usize| goal.shares.get(index).map_or(0, |share| share.size);
            Record::new()
                .with("SocketID", format!("{:#06x}", goal.module.socket()))
                .with("DimmID", goal.module)
                .with("MemorySize", self.capacity(goal.memory, display))
                .with("AppDirect1Size", self.capacity(share(0), display))
                .with("AppDirect2Size", self.capacity(share(1), display))
        };
        let records = goals.iter().map(record).collect();
        let head = Some("DimmID");
        let records = Records { list_tag: "ConfigGoalList", tag: "ConfigGoal", part_tag: "", head, records };
        print(records, &COLUMNS, display)
    }
}
