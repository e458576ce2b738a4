//! `lode platform init`.

use super::source::{NOTES, RealMachine};
use super::{MachineLocation, failed};
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use clap::Args;
use lode_platform::machine::{INCLUDED, Machine};
use lode_platform::{Directory, DirectoryError};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

const FIELDS: &[(&str, &str)] = &[
    ("state", "the directory that holds the machine"),
    ("machine", "its name"),
    ("modules", "how many modules it has"),
    ("notes", "with a real machine: what was assumed or left out"),
];

/// Create a machine in a new or empty directory
#[derive(Args, Debug)]
#[command(after_long_help = included())]
pub(crate) struct Init {
    /// Name of an included machine, or a file that describes one (FILE.toml)
    #[arg(required_unless_present = "RealMachine", conflicts_with = "RealMachine")]
    machine: Option<PathBuf>,
    #[command(flatten)]
    source: RealMachine,
    /// Name of the machine that is made from a real one
    #[arg(long, default_value = "my-server", requires = "RealMachine")]
    name: String,
    #[command(flatten)]
    location: MachineLocation,
}

fn included() -> String {
    let names = INCLUDED.map(|(name, _)| format!("  {name}\n")).concat();
    format!(
        "`lode platform template` prints a machine file with comments, and its manual page has the form.\n\n\
         {NOTES}\n\nMachines that are included:\n{names}\n{}",
        fields::help(FIELDS)
    )
}

pub(crate) fn run(init: &Init) -> Result<Output, Failure> {
    let what = "creating a machine";
    let state = init.location.directory()?;
    let (made, notes) = match (&init.machine, init.source.discover(&init.name)?) {
        (_, Some(discovered)) => {
            (Directory::adopt(state, &discovered).map_err(failed(what))?, discovered.notes)
        }
        (Some(machine), None) => {
            (Directory::init(state, machine, &text(machine)?).map_err(failed(what))?, Vec::new())
        }
        (None, None) => {
            return Err(Failure::usage_error("name a machine, or take a real one with --from-..."));
        }
    };
    let platform = made.platform();
    let root = made.root().display().to_string();
    let (name, count) = (&platform.machine.name, platform.machine.modules.len());
    let configured = platform.state.partitions.len();
    let modules = match (count, configured) {
        (1, 0) => "module, not configured".to_owned(),
        (1, _) => "module, configured".to_owned(),
        (_, 0) => "modules, none of them configured".to_owned(),
        _ => format!("modules, {configured} of them configured"),
    };
    let mut text = format!("{root}: {name} with {count} {modules}\n");
    notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    let output = Output::text(text).with("state", root).with("machine", name.as_str()).with("modules", count);
    Ok(if init.source.is_named() { output.with("notes", notes) } else { output })
}

/// Returns the description of the machine: the file's text if the name looks like a file, or an included one.
fn text(machine: &Path) -> Result<String, Failure> {
    let looks_like_a_file = machine.extension() == Some(OsStr::new("toml")) || machine.exists();
    if looks_like_a_file {
        return fs::read_to_string(machine)
            .map_err(|error| Failure::io("reading a machine", machine, &error));
    }
    let path = machine.to_owned();
    Machine::included(&machine.to_string_lossy())
        .map(str::to_owned)
        .map_err(|error| failed("creating a machine")(DirectoryError::Machine { path, error }))
}
