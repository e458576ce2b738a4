//! Moves of namespaces: arguments, text and JSON that `evacuate`, `replace` and `extend` have in common.

use super::failed;
use super::image::with_progress;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use lode_platform::image::CopyProgress;
use lode_platform::machine::Handle;
use lode_platform::plan::Table;
use lode_platform::relocate::{Destination, Place, PlannedMove, Relocation, Stage};
use lode_platform::{Directory, Platform, PlatformError, one_line};
use serde_json::{Value, json};
use std::path::PathBuf;
use uuid::Uuid;

/// The JSON field of moves.
pub(super) const MOVES: (&str, &str) = (
    "moves",
    "the namespaces that leave: of each device, name, mode, size and usable bytes, file_system or null, to, a namespace or \
     a file, and stage, null if the move has not begun",
);

/// The JSON field of steps.
pub(super) const STEPS: (&str, &str) = ("steps", "the steps, in words");

/// The JSON field of the table.
pub(super) const TABLE: (&str, &str) =
    ("table", "use of the capacity afterwards, as `lode platform plan` prints it");

/// The JSON field of the script.
pub(super) const SCRIPT: (&str, &str) = ("script", "with --commands: the lines of the script");

/// The JSON field of execution.
pub(super) const APPLIED: (&str, &str) = ("applied", "whether it was carried out");

/// A module, as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ModuleName {
    /// N of nmemN.
    Index(u32),
    /// Firmware's handle.
    Handle(Handle),
    /// The name of its slot.
    Slot(String),
}

/// Parses `nmem0`, `0x0001` or the name of a slot.
pub(super) fn module_name(word: &str) -> Result<ModuleName, String> {
    let index = word.strip_prefix("nmem").and_then(|digits| digits.parse().ok());
    match (index, Handle::parse_number(word)) {
        (Some(index), _) => Ok(ModuleName::Index(index)),
        (_, Some(number)) => {
            Handle::of_number(number).map(ModuleName::Handle).map_err(|error| error.to_string())
        }
        _ if word.is_empty() => Err("name a module, as nmem0, 0x0001 or by its slot".to_owned()),
        _ => Ok(ModuleName::Slot(word.to_owned())),
    }
}

impl ModuleName {
    /// Returns the handle of the module.
    pub(super) fn find(&self, platform: &Platform) -> Result<Handle, Failure> {
        let modules = &platform.machine.modules;
        match self {
            // The library has the message for a handle or a number without a module.
            ModuleName::Handle(handle) => Ok(*handle),
            ModuleName::Index(index) => {
                let index = *index as usize;
                let unknown = lode_platform::machine::ModuleError::UnknownDevice { index };
                let found = modules.get(index).map(|module| module.handle);
                found.ok_or_else(|| failed("finding a module")(unknown))
            }
            ModuleName::Slot(slot) => {
                let mut found = modules.iter().filter(|module| module.locator == *slot);
                match (found.next(), found.next()) {
                    (Some(module), None) => Ok(module.handle),
                    (None, _) => Err(Failure::new(
                        "finding a module",
                        format_args!(
                            "no slot with a module is called {}; name a module as nmem0 or 0x0001; `lode ipmctl show \
                             -topology` lists them",
                            one_line(slot)
                        ),
                    )),
                    (Some(_), Some(_)) => Err(Failure::new(
                        "finding a module",
                        format_args!(
                            "several slots are called {}; name the module as nmem0 or 0x0001",
                            one_line(slot)
                        ),
                    )),
                }
            }
        }
    }
}

/// Parses a region or a folder.
pub(super) fn destination(word: &str) -> Result<Destination, String> {
    let number = word.strip_prefix("region").and_then(|digits| digits.parse().ok());
    match number {
        Some(number) => Ok(Destination::Region(number)),
        None if word.is_empty() => Err("name a region, as region1, or a folder".to_owned()),
        None => Ok(Destination::Folder(PathBuf::from(word))),
    }
}

/// Makes the paths of folders absolute, since the state of the machine has them.
pub(super) fn absolute(to: &[Destination]) -> Vec<Destination> {
    let one = |destination: &Destination| match destination {
        Destination::Folder(path) => {
            Destination::Folder(path.canonicalize().unwrap_or_else(|_| path.clone()))
        }
        region @ Destination::Region(_) => region.clone(),
    };
    to.iter().map(one).collect()
}

/// Returns the lines for what lies on modules: the namespaces, and the file systems on them.
pub(super) fn contents(directory: Option<&Directory>, moves: &[PlannedMove]) -> Vec<String> {
    let line = |one: &PlannedMove| {
        let one = &one.relocation;
        let mut text = format!("  {}  {}, {}", one.device, one.mode.as_str(), bytes(one.size));
        if !one.name.is_empty() {
            text += &format!(", \"{}\"", one_line(&one.name));
        }
        if let Some((kind, label)) = file_system(directory, one) {
            text += &format!(", {kind}");
            if !label.is_empty() {
                text += &format!(" \"{}\"", one_line(&label));
            }
        }
        text
    };
    moves.iter().map(line).collect()
}

/// Returns type and label of the file system on a namespace, as far as they are known.
fn file_system(directory: Option<&Directory>, one: &Relocation) -> Option<(&'static str, String)> {
    let (_, found) = directory?.file_system(&one.device).ok()?;
    found.map(|found| (found.kind, found.label))
}

pub(super) fn moves_json(directory: Option<&Directory>, moves: &[PlannedMove]) -> Value {
    let one = |planned: &PlannedMove| {
        let one = &planned.relocation;
        json!({
            "device": one.device,
            "name": one.name,
            "mode": one.mode.as_str(),
            "size": one.size,
            "usable": one.usable,
            "file_system": file_system(directory, one).map(|(kind, _)| kind),
            "to": place(planned),
            "stage": planned.begun.then(|| stage_word(one.stage)),
        })
    };
    moves.iter().map(one).collect()
}

/// Returns the name of the place of a move.
fn place(planned: &PlannedMove) -> String {
    match &planned.relocation.place {
        Place::Namespace(_) => planned.target.clone(),
        Place::File(path) => path.display().to_string(),
    }
}

fn stage_word(stage: Stage) -> &'static str {
    match stage {
        Stage::Leaving => "leaving",
        Stage::Copied => "copied",
        Stage::Away => "away",
        Stage::Returning => "returning",
        Stage::Returned => "returned",
    }
}

/// Returns the steps of moves, in words.
pub(super) fn leaving(moves: &[PlannedMove]) -> Vec<String> {
    let steps = moves.iter().flat_map(|planned| {
        let one = &planned.relocation;
        let (device, to) = (&one.device, one_line(&place(planned)));
        let made = planned.parameters.as_ref().map(|parameters| {
            let size = bytes(parameters.size.unwrap_or(one.size));
            format!("make {to} for {device}: {}, {size}", one.mode.as_str())
        });
        let copied = (one.stage < Stage::Copied).then(|| format!("copy {device} to {to}"));
        let compared = format!("read both back, compare, and destroy {device}");
        made.into_iter().chain(copied).chain([compared])
    });
    steps.collect()
}

/// Returns the steps by which namespaces come back, in words.
pub(super) fn coming_back(back: &[Relocation]) -> Vec<String> {
    let steps = back.iter().flat_map(|one| {
        let what = match one.name.as_str() {
            "" => one.device.clone(),
            name => format!("{} \"{}\"", one.device, one_line(name)),
        };
        let from = match &one.place {
            Place::Namespace(_) => "its place".to_owned(),
            Place::File(path) => path.display().to_string(),
        };
        let made = format!("make {what} again: {}, {}", one.mode.as_str(), bytes(one.size));
        let copied = format!("copy its data from {from}, read both back, compare, and remove the other one");
        let made = (one.stage < Stage::Returning).then_some(made);
        made.into_iter().chain([copied])
    });
    steps.collect()
}

/// Formats a plan: steps, losses, and the tables before and afterwards.
pub(super) fn plan_text(
    head: &str,
    steps: &[String],
    lost: &[String],
    before: &Platform,
    after: &Platform,
) -> String {
    let mut text = head.to_owned();
    if steps.is_empty() {
        return text + "Nothing to do.\n";
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text += "Steps:\n";
    for (step, number) in steps.iter().zip(1..) {
        text += &format!("  {number}. {step}\n");
    }
    text += "\nLost: ";
    text += &if lost.is_empty() { "nothing.\n".to_owned() } else { format!("{}.\n", lost.join(", ")) };
    let indented = |table: Table| table.text().lines().map(|line| format!("  {line}\n")).collect::<String>();
    text += &format!("\nBefore:\n{}", indented(Table::of(before)));
    text + &format!("\nAfterwards:\n{}", indented(Table::of(after)))
}

/// Formats bytes for people.
pub(super) fn bytes(bytes: u64) -> String {
    lode_platform::plan::brief(bytes)
}

/// Carries moves out with a progress bar of `len` bytes. SIGINT ends them after the last step that is complete.
pub(super) fn carried_out(
    what: &'static str,
    len: u64,
    work: impl FnOnce(&mut CopyProgress<'_>, &mut dyn FnMut() -> Uuid) -> Result<(), PlatformError>,
) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let done = with_progress(what, len, &interrupt, |progress| work(progress, &mut Uuid::new_v4));
    done.map_err(|error| match error {
        PlatformError::Cancelled(_) => Failure::interrupted(format!(
            "{what}: it was stopped; no data is lost, what was moved stays, and the same command goes on"
        )),
        error => failed(what)(error),
    })
}

/// Returns the bytes that moves read and write, for the progress bar.
pub(super) fn copied_len(moves: &[PlannedMove], back: &[Relocation]) -> u64 {
    // Each move copies once, and reads both back.
    let one = |one: &Relocation| one.usable.saturating_mul(3);
    moves
        .iter()
        .map(|planned| one(&planned.relocation))
        .chain(back.iter().map(one))
        .fold(0, u64::saturating_add)
}
