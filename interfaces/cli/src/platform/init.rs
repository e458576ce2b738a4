//! `lode platform init`.

use super::{MachineLocation, failed};
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use clap::Args;
use lode_platform::machine::{INCLUDED, Machine};
use lode_platform::{Directory, DirectoryError};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

const FIELDS: &[(&str, &str)] = &[
    ("state", "the directory that holds the machine"),
    ("machine", "its name"),
    ("modules", "how many modules it has"),
];

/// Create a machine in a new or empty directory
#[derive(Args, Debug)]
#[command(after_long_help = included())]
pub(crate) struct Init {
    /// Name of an included machine, or a file that describes one (FILE.toml)
    machine: PathBuf,
    #[command(flatten)]
    location: MachineLocation,
}

fn included() -> String {
    let names = INCLUDED.map(|(name, _)| format!("  {name}\n")).concat();
    format!("Machines that are included:\n{names}\n{}", fields::help(FIELDS))
}

pub(crate) fn run(init: &Init) -> Result<Output, Failure> {
    let text = text(init)?;
    let state = init.location.directory()?;
    let made = Directory::init(state, &init.machine, &text).map_err(failed("creating a machine"))?;
    let machine = &made.platform().machine;
    let root = made.root().display().to_string();
    let (name, count) = (&machine.name, machine.modules.len());
    let modules = if count == 1 { "module, not configured" } else { "modules, none of them configured" };
    let text = format!("{root}: {name} with {count} {modules}\n");
    Ok(Output::text(text).with("state", root).with("machine", name.as_str()).with("modules", count))
}

/// Returns the description of the machine: the file's text if the name looks like a file, or an included one.
fn text(init: &Init) -> Result<String, Failure> {
    let looks_like_a_file = init.machine.extension() == Some(OsStr::new("toml")) || init.machine.exists();
    if looks_like_a_file {
        return fs::read_to_string(&init.machine)
            .map_err(|error| Failure::io("reading a machine", &init.machine, &error));
    }
    let path = init.machine.clone();
    Machine::included(&init.machine.to_string_lossy())
        .map(str::to_owned)
        .map_err(|error| failed("creating a machine")(DirectoryError::Machine { path, error }))
}
