//! `lode platform`: emulated machines with persistent memory.

mod init;

use crate::answer::Answer;
use crate::failure::Failure;
use clap::{Args, Subcommand};
use lode_platform::{Directory, PlatformError, Purpose};
use serde_json::json;
use std::path::PathBuf;

/// The verbs of `lode platform`.
#[derive(Debug, Subcommand)]
pub(crate) enum PlatformVerb {
    /// Make a machine, in a directory that holds nothing yet
    Init(init::Init),
    /// Draw sockets, modules and regions of a machine
    Show(Place),
    /// Start a machine anew, which takes goals into effect
    Reboot(Place),
}

/// Where a machine is.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// The directory that holds the machine
    #[arg(long, value_name = "DIR", env = "LODE_STATE")]
    state: PathBuf,
}

impl Place {
    /// Opens the directory.
    pub(crate) fn open(&self, purpose: Purpose) -> Result<Directory, Failure> {
        Directory::open(&self.state, purpose).map_err(failed("opening a machine"))
    }
}

pub(crate) fn run(verb: &PlatformVerb) -> Result<Answer, Failure> {
    match verb {
        PlatformVerb::Init(init) => init::run(init),
        PlatformVerb::Show(place) => {
            let directory = place.open(Purpose::Look)?;
            let text = directory.platform().overview();
            Ok(Answer::text(text.clone()).with("output", text))
        }
        PlatformVerb::Reboot(place) => reboot(place),
    }
}

fn reboot(place: &Place) -> Result<Answer, Failure> {
    let mut directory = place.open(Purpose::Change)?;
    let changed =
        directory.change(|platform| Ok(platform.reboot())).map_err(failed("starting a machine anew"))?;
    let modules: Vec<String> = changed.iter().map(ToString::to_string).collect();
    let boots = directory.platform().state.boots;
    let text = match modules.as_slice() {
        [] => format!("start {boots}: no goals were waiting\n"),
        modules => format!("start {boots}: goals took effect on {}\n", modules.join(", ")),
    };
    Ok(Answer::text(text).with("boots", boots).with("modules", json!(modules)))
}

/// A command about a machine failed.
pub(crate) fn failed(what: &'static str) -> impl FnOnce(PlatformError) -> Failure {
    move |error| match &error {
        PlatformError::Percentages { .. } | PlatformError::UnknownValue { .. } => {
            Failure::bad_usage(error.to_string())
        }
        _ => Failure::new(what, error),
    }
}
