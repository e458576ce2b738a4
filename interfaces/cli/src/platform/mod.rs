//! `lode platform`: emulated machines with persistent memory.

mod e820;
mod image;
mod init;
mod mkfs;
mod plan;
pub(crate) mod real;
mod show;
mod wishes;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::fields;
use clap::{Args, Subcommand};
use lode_platform::boot;
use lode_platform::goal::GoalError;
use lode_platform::ipmctl::ShowError;
use lode_platform::sysfs::{Sysfs, SysfsError};
use lode_platform::{Directory, PlatformError, Purpose};
use serde_json::json;
use std::path::{Path, PathBuf};

const REBOOT_FIELDS: &[(&str, &str)] = &[
    ("boots", "how often the machine was started"),
    ("modules", "the modules on which goals took effect"),
    ("commands", "instead, if the machine is a real one: what to run"),
];

/// The verbs of `lode platform`.
#[derive(Debug, Subcommand)]
pub(crate) enum PlatformVerb {
    /// Make a machine in a new or empty directory
    Init(init::Init),
    /// Draw modules, regions and namespaces of a machine, emulated or real
    Show(show::Show),
    /// Restart a machine, which applies the goals
    #[command(after_long_help = fields::help(REBOOT_FIELDS))]
    Reboot(Place),
    /// Make images for virtual machines, and import the changes that these made
    #[command(subcommand)]
    Image(image::ImageVerb),
    /// Make a file system on an fsdax namespace
    Mkfs(mkfs::Mkfs),
    /// Plan the steps that give a machine the requested namespaces
    Plan(plan::Plan),
    /// Read the memory map of a machine, and plan RAM that stands in for persistent memory
    E820(e820::E820),
}

/// Location of a machine.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// Directory of an emulated machine; without it, the real machine is used
    #[arg(long, value_name = "DIR", env = "LODE_STATE")]
    state: Option<PathBuf>,
    /// Use a real machine even if LODE_STATE is set, as the sysfs in this directory shows it [default: /sys]
    #[arg(long, value_name = "DIR")]
    sysfs: Option<PathBuf>,
}

/// A machine that is read.
pub(crate) enum Seen {
    /// An emulated machine, in a directory.
    Emulated(Box<Directory>),
    /// A real machine, as its kernel shows it.
    Real(Sysfs),
}

impl Place {
    /// Returns true if the machine is a real one.
    pub(crate) fn is_real(&self) -> bool {
        self.sysfs.is_some() || self.state.is_none()
    }

    /// Opens the machine for reading.
    pub(crate) fn look(&self) -> Result<Seen, Failure> {
        if !self.is_real() {
            return self.open(Purpose::Look).map(|directory| Seen::Emulated(Box::new(directory)));
        }
        self.sysfs().map(Seen::Real)
    }

    /// Opens the sysfs of a real machine.
    pub(crate) fn sysfs(&self) -> Result<Sysfs, Failure> {
        let root = self.sysfs.as_deref().unwrap_or(Path::new(Sysfs::LIVE));
        Sysfs::open(root).map_err(failed("looking at a machine"))
    }

    /// Opens the directory of an emulated machine.
    pub(crate) fn open(&self, purpose: Purpose) -> Result<Directory, Failure> {
        Directory::open(self.directory()?, purpose).map_err(failed("opening a machine"))
    }

    /// Returns the directory of an emulated machine.
    pub(crate) fn directory(&self) -> Result<&Path, Failure> {
        let state = self.state.as_deref().filter(|_| !self.is_real());
        state.ok_or_else(|| {
            Failure::bad_usage(
                "this is done to emulated machines: name the directory with --state or LODE_STATE",
            )
        })
    }
}

pub(crate) fn run(verb: &PlatformVerb) -> Result<Answer, Failure> {
    match verb {
        PlatformVerb::Init(init) => init::run(init),
        PlatformVerb::Show(show) => show::run(show),
        PlatformVerb::Reboot(place) if place.is_real() => Ok(real::left_to_tools(&["reboot".to_owned()])),
        PlatformVerb::Reboot(place) => reboot(place),
        PlatformVerb::Image(verb) => image::run(verb),
        PlatformVerb::Mkfs(mkfs) => mkfs::run(mkfs),
        PlatformVerb::Plan(plan) => plan::run(plan),
        PlatformVerb::E820(e820) => e820::run(e820),
    }
}

fn reboot(place: &Place) -> Result<Answer, Failure> {
    let mut directory = place.open(Purpose::Change)?;
    let changed = directory.change::<_, PlatformError>(|platform| Ok(boot::reboot(platform)));
    let changed = changed.map_err(failed("starting a machine anew"))?;
    let modules: Vec<String> = changed.iter().map(ToString::to_string).collect();
    let boots = directory.platform().state.boots;
    let text = match modules.as_slice() {
        [] => format!("start {boots}: no goals were waiting\n"),
        modules => format!("start {boots}: goals took effect on {}\n", modules.join(", ")),
    };
    Ok(Answer::text(text).with("boots", boots).with("modules", json!(modules)))
}

/// Returns a function that turns an error of a machine into the failure of `what`.
pub(crate) fn failed<E: Into<PlatformError>>(what: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| match error.into() {
        error @ (PlatformError::Goal(GoalError::Percentages { .. })
        | PlatformError::Show(ShowError::UnknownValue { .. })
        | PlatformError::Sysfs(SysfsError::Show(ShowError::UnknownValue { .. }))) => {
            Failure::bad_usage(error.to_string())
        }
        PlatformError::Stopped(stopped) => Failure::interrupted(format!("{what}: {stopped}")),
        error => Failure::new(what, error),
    }
}
