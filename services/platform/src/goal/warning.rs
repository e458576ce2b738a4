//! Warnings about goals that ipmctl takes.

use super::request::{GoalRequest, Targets};
use super::rules::{answers, memory_by_socket};
use crate::machine::{IpmctlGeneration, Security};
use crate::platform::Platform;
use crate::security;
use crate::state::Goal;

/// Tenths of the smallest recommended ratio of memory to DRAM on modules of generations 1 and 2.
const RATIO_MIN_TENTHS: u64 = 36;
/// The largest recommended ratio.
const RATIO_MAX: u64 = 16;
/// The difference in percentage points between requested and actual memory that is still not worth a warning.
const PERCENT_DIFFERENCE_MAX: u64 = 10;

/// A warning about goals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoalWarning {
    /// The memory of a socket is less than 3.6 times its DRAM.
    LittleMemory,
    /// The memory of a socket is more than 16 times its DRAM.
    MuchMemory,
    /// Alignment changed the requested memory by more than ten percentage points.
    Adjusted,
    /// A module has a passphrase and is not locked. Firmware ignores its goal unless security is disabled before the
    /// reboot.
    Unlocked,
}

/// Returns the warnings about goals for a request, in the order in which ipmctl prints them.
pub fn warnings(platform: &Platform, request: &GoalRequest, goals: &[Goal]) -> Vec<GoalWarning> {
    let mut warnings = Vec::new();
    let is_first = platform.machine.profile.ipmctl == IpmctlGeneration::One;
    let ratio = |(socket, memory): (u16, u64)| {
        let dram = platform.machine.dram_capacity(socket);
        if memory > RATIO_MAX * dram {
            Some(GoalWarning::MuchMemory)
        } else {
            (memory < dram * RATIO_MIN_TENTHS / 10).then_some(GoalWarning::LittleMemory)
        }
    };
    if !is_first {
        // One warning is printed: that of the last socket with one.
        warnings.extend(memory_by_socket(platform, goals).into_iter().filter_map(ratio).next_back());
    }
    let usable = goals.iter().filter_map(|goal| platform.machine.module(goal.module));
    let usable: u64 = usable.map(|module| platform.machine.usable_capacity(module)).sum();
    let memory: u64 = goals.iter().map(|goal| goal.memory).sum();
    if usable > 0 {
        let actual = (u128::from(memory) * 100 / u128::from(usable)) as u64;
        if actual.abs_diff(request.memory_percent.into()) > PERCENT_DIFFERENCE_MAX {
            warnings.push(GoalWarning::Adjusted);
        }
    }
    if !is_first && has_unlocked(platform, &request.targets) {
        warnings.push(GoalWarning::Unlocked);
    }
    warnings
}

/// Returns true if a module that answers has a passphrase and is not locked: of those that the targets name, or of all
/// modules of the machine, even if the targets name sockets.
fn has_unlocked(platform: &Platform, targets: &Targets) -> bool {
    let mut modules =
        platform.machine.modules.iter().filter(|one| {
            answers(one) && (targets.modules.is_empty() || targets.modules.contains(&one.handle))
        });
    modules.any(|one| one.security != Security::Locked && security::has_passphrase(platform, one.handle))
}
