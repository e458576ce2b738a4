//! A plan is printed, carried out, or printed as a script.

use super::MachineLocation;
use super::real::tool_commands_output;
use crate::failure::Failure;
use crate::output::Output;
use clap::Args;
use lode_platform::{Directory, Purpose};

/// Options of `evacuate`, `replace` and `extend`.
#[derive(Args, Debug)]
pub(super) struct Execution {
    /// Carry the plan out, on an emulated machine
    #[arg(long, conflicts_with = "commands")]
    pub(super) apply: bool,
    /// Print a script that carries the plan out on a real machine
    #[arg(long)]
    pub(super) commands: bool,
    #[command(flatten)]
    pub(super) location: MachineLocation,
}

impl Execution {
    /// Opens the directory of an emulated machine, for changes if the plan is carried out.
    pub(super) fn open(&self) -> Result<Directory, Failure> {
        self.location.open(if self.apply { Purpose::Change } else { Purpose::ReadOnly })
    }

    /// Adds whether the plan was carried out, and with --commands the script.
    pub(super) fn add_to(&self, output: Output, applied: bool, script: &str) -> Output {
        let output = output.with("applied", applied);
        if self.commands { output.with("script", lines(script)) } else { output }
    }
}

/// Returns the output of a plan for a real machine, which is left to its own tools.
pub(super) fn left_to_tools(script: &str) -> Output {
    tool_commands_output(&lines(script))
}

fn lines(script: &str) -> Vec<String> {
    script.lines().map(str::to_owned).collect()
}
