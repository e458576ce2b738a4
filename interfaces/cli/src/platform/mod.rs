//! `lode platform`: emulated machines with persistent memory.

mod df;
mod e820;
mod evacuate;
mod execution;
mod extend;
mod image;
mod init;
mod locate;
mod mkfs;
mod moves;
mod new_file;
mod plan;
pub(crate) mod real;
mod replace;
mod requests;
mod show;
mod source;
mod template;

use crate::failure::Failure;
use crate::fields;
use crate::hint::platform_hint;
use crate::output::Output;
use clap::{Args, Subcommand};
use lode_platform::boot;
use lode_platform::goal::GoalError;
use lode_platform::ipmctl::ShowError;
use lode_platform::sysfs::{Sysfs, SysfsError};
use lode_platform::{Directory, PlatformError, Purpose};
pub(crate) use new_file::write_atomically;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

const REBOOT_FIELDS: &[(&str, &str)] = &[
    ("boots", "number of boots of the machine"),
    ("modules", "the modules on which goals took effect"),
    ("waiting", "the modules whose goals still wait, since they, or others of their sets, have a passphrase"),
    ("commands", "instead, if the machine is a real one: the commands to run"),
];

/// The commands of `lode platform`.
#[derive(Debug, Subcommand)]
pub(crate) enum PlatformCommand {
    /// Create a machine in a new or empty directory
    Init(init::Init),
    /// Print a machine file with comments, or that of a real machine
    Template(template::Template),
    /// Draw modules, regions and namespaces of a machine, emulated or real
    Show(show::Show),
    /// Restart a machine, which applies the goals
    #[command(after_long_help = fields::help(REBOOT_FIELDS))]
    Reboot(MachineLocation),
    /// Make images for virtual machines, and import the changes that these made
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Make a file system on an fsdax namespace
    Mkfs(mkfs::Mkfs),
    /// Show the space that the file systems on namespaces offer, as df does
    Df(df::Df),
    /// Plan the steps that give a machine the requested namespaces
    Plan(plan::Plan),
    /// Move what lies on a module to other regions or to files
    Evacuate(evacuate::Evacuate),
    /// Exchange a module: what lies on it leaves before, and comes back
    Replace(replace::Replace),
    /// Add modules, or let a namespace grow with its content
    Extend(extend::Extend),
    /// Find the module, namespace, file, object and processes of a byte, or the module of an object
    Where(locate::Where),
    /// Read the memory map of a machine, and plan RAM that stands in for persistent memory
    E820(e820::E820),
}

/// Location of a machine.
#[derive(Args, Debug)]
pub(crate) struct MachineLocation {
    /// Directory of an emulated machine; without it, the real machine is used
    #[arg(long, value_name = "DIR", env = "LODE_STATE")]
    state: Option<PathBuf>,
    /// Use a real machine even if LODE_STATE is set, as the sysfs in this directory shows it [default: /sys]
    #[arg(long, value_name = "DIR")]
    sysfs: Option<PathBuf>,
    /// Time in seconds to wait for other commands that use the emulated machine
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    wait: Duration,
}

/// Parses a time in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds, as 10 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// A machine, opened for reading.
pub(crate) enum OpenedMachine {
    /// An emulated machine, in a directory.
    Emulated(Box<Directory>),
    /// A real machine, as its kernel shows it.
    Real(Sysfs),
}

impl MachineLocation {
    /// Returns true if the machine is a real one.
    pub(crate) fn is_real(&self) -> bool {
        self.sysfs.is_some() || self.state.is_none()
    }

    /// Opens the machine for reading.
    pub(crate) fn open_read_only(&self) -> Result<OpenedMachine, Failure> {
        if !self.is_real() {
            return self
                .open(Purpose::ReadOnly)
                .map(|directory| OpenedMachine::Emulated(Box::new(directory)));
        }
        self.sysfs().map(OpenedMachine::Real)
    }

    /// Opens the sysfs of a real machine.
    pub(crate) fn sysfs(&self) -> Result<Sysfs, Failure> {
        let root = self.sysfs.as_deref().unwrap_or(Path::new(Sysfs::LIVE));
        Sysfs::open(root).map_err(failed("opening a machine"))
    }

    /// Opens the directory of an emulated machine.
    pub(crate) fn open(&self, purpose: Purpose) -> Result<Directory, Failure> {
        let opened = Directory::open_within(self.directory()?, purpose, self.wait);
        let directory = opened.map_err(failed("opening a machine"))?;
        if let Some(error) = directory.unfinished() {
            eprintln!("lode: note: {error}");
        }
        Ok(directory)
    }

    /// Returns the directory of an emulated machine.
    pub(crate) fn directory(&self) -> Result<&Path, Failure> {
        let state = self.state.as_deref().filter(|_| !self.is_real());
        state.ok_or_else(|| {
            Failure::usage_error("only for emulated machines: name the directory with --state or LODE_STATE")
        })
    }
}

pub(crate) fn run(command: &PlatformCommand) -> Result<Output, Failure> {
    match command {
        PlatformCommand::Init(init) => init::run(init),
        PlatformCommand::Template(template) => template::run(template),
        PlatformCommand::Show(show) => show::run(show),
        PlatformCommand::Reboot(location) if location.is_real() => {
            Ok(real::tool_commands_output(&["reboot".to_owned()]))
        }
        PlatformCommand::Reboot(location) => reboot(location),
        PlatformCommand::Image(command) => image::run(command),
        PlatformCommand::Mkfs(mkfs) => mkfs::run(mkfs),
        PlatformCommand::Df(df) => df::run(df),
        PlatformCommand::Plan(plan) => plan::run(plan),
        PlatformCommand::Evacuate(evacuate) => evacuate::run(evacuate),
        PlatformCommand::Replace(replace) => replace::run(replace),
        PlatformCommand::Extend(extend) => extend::run(extend),
        PlatformCommand::Where(place) => locate::run(place),
        PlatformCommand::E820(e820) => e820::run(e820),
    }
}

fn reboot(location: &MachineLocation) -> Result<Output, Failure> {
    let mut directory = location.open(Purpose::Change)?;
    let changed = directory.change::<_, PlatformError>(|platform| Ok(boot::reboot(platform)));
    let changed = changed.map_err(failed("rebooting a machine"))?;
    let modules: Vec<String> = changed.iter().map(ToString::to_string).collect();
    let boots = directory.platform().state.boots;
    let goals = &directory.platform().state.goals;
    let waiting: Vec<String> = goals.iter().map(|goal| goal.module.to_string()).collect();
    let mut text = match (modules.as_slice(), waiting.as_slice()) {
        ([], []) => format!("start {boots}: no goals were waiting\n"),
        ([], _) => format!("start {boots}: no goals took effect\n"),
        (modules, _) => format!("start {boots}: goals took effect on {}\n", modules.join(", ")),
    };
    if !waiting.is_empty() {
        text += &format!(
            "goals of {} still wait: firmware applies none to a set with a module that has a passphrase; remove it with \
             `lode ndctl remove-passphrase`, and start again\n",
            waiting.join(", ")
        );
    }
    let output = Output::text(text).with("boots", boots).with("modules", json!(modules));
    Ok(output.with("waiting", json!(waiting)))
}

/// Returns a function that turns an error of a machine into the failure of `what`.
pub(crate) fn failed<E: Into<PlatformError>>(what: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| {
        let error = error.into();
        let why = format!("{error}{}", platform_hint(&error));
        match error {
            PlatformError::Goal(GoalError::Percentages { .. })
            | PlatformError::Show(ShowError::UnknownValue { .. })
            | PlatformError::Sysfs(SysfsError::Show(ShowError::UnknownValue { .. })) => {
                Failure::usage_error(why)
            }
            PlatformError::Cancelled(_) => Failure::interrupted(format!("{what}: {why}")),
            _ => Failure::new(what, why),
        }
    }
}
