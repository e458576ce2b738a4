//! Plans as text.

use super::amount::brief;
use super::loss::Loss;
use super::note::Note;
use super::sequence::Plan;
use super::step::Step;
use crate::goal::GoalRequest;
use crate::listing::one_line;
use std::fmt::Display;

impl Plan {
    /// Formats the plan for users: steps, losses, notes, and the table.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.steps.is_empty() {
            text += "Nothing to do.\n";
        } else {
            text += "Steps:\n";
            for (step, number) in self.steps.iter().zip(1..) {
                text += &format!("  {number}. {}\n", step.describe());
            }
        }
        text += &block("Lost", &self.losses, "nothing");
        if !self.notes.is_empty() {
            text += &block("To know", &self.notes, "");
        }
        text + "\nAfterwards:\n" + &indented(&self.table.text())
    }

    /// Formats the commands for a real machine as a shell script, with the losses as comments.
    pub fn commands(&self) -> String {
        let mut text = String::new();
        let lost = self.losses.iter().map(Loss::to_string);
        let notes = self.notes.iter().map(Note::to_string);
        text.extend(lost.map(|loss| format!("# lost: {}\n", one_line(&loss))));
        text.extend(notes.map(|note| format!("# {}\n", one_line(&note))));
        for (index, step) in self.steps.iter().enumerate() {
            text += &format!("{}\n", step.command());
            if *step == Step::Reboot && index + 1 < self.steps.len() {
                text += "# when the machine is up again\n";
            }
        }
        text
    }
}

impl Step {
    /// Describes the step for users.
    pub fn describe(&self) -> String {
        match self {
            Step::DestroyNamespace { name, mode, size } => {
                format!("unmake {name} ({}, {})", mode.as_str(), brief(*size))
            }
            Step::DeleteGoals { modules } => format!("take back the goals of {}", list(modules)),
            Step::CreateGoals { request } => format!("make a goal for {}", request.describe()),
            Step::ClearConfiguration { modules } => {
                format!(
                    "delete the configuration data of {}, so that they get a goal by themselves",
                    list(modules)
                )
            }
            Step::Reboot => "start the machine anew, which takes goals into effect".to_owned(),
            Step::LabelRegion { region, .. } => {
                format!("write labels for region{region}, so that it can be divided")
            }
            Step::FormRegion { region } => {
                let devices: Vec<String> = region.devices.iter().map(|one| format!("mem{one}")).collect();
                let (number, size, window) = (region.number, brief(region.size), &region.window);
                format!("make region{number}, {size}, of {} in {window}", devices.join(" + "))
            }
            Step::CreateNamespace { parameters, socket, name } => {
                let size = parameters.size.map_or(String::new(), |size| format!(" of {}", brief(size)));
                let region = parameters.region.unwrap_or_default();
                let called = if parameters.name.is_empty() { "" } else { ", called " };
                let label = one_line(&parameters.name);
                let mode = parameters.mode.as_str();
                format!("make {name}, {mode}{size}, in region{region} of socket {socket}{called}{label}")
            }
        }
    }
}

impl GoalRequest {
    fn describe(&self) -> String {
        let targets = match (&self.targets.sockets[..], &self.targets.modules[..]) {
            ([], []) => "all modules".to_owned(),
            ([one], _) => format!("the modules of socket {one}"),
            ([], modules) => list(modules),
            (sockets, _) => format!("the modules of sockets {}", list(sockets)),
        };
        let mut parts = Vec::new();
        if self.memory_percent > 0 {
            parts.push(format!("{}% memory", self.memory_percent));
        }
        if self.reserved_percent > 0 {
            parts.push(format!("{}% left out", self.reserved_percent));
        }
        if self.memory_percent + self.reserved_percent < 100 {
            let rest = if parts.is_empty() { "all" } else { "the rest" };
            parts.push(format!("{rest} persistent, {}", self.kind.as_str()));
        }
        format!("{targets}: {}", parts.join(", "))
    }
}

fn list<T: Display>(things: &[T]) -> String {
    things.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn block<T: Display>(head: &str, things: &[T], none: &str) -> String {
    let lines = things.iter().map(|thing| format!("  {}\n", one_line(&thing.to_string())));
    let lines: String = lines.collect();
    if lines.is_empty() { format!("\n{head}: {none}.\n") } else { format!("\n{head}:\n{lines}") }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
