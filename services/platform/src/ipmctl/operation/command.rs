//! A command with its words, and the checked command.

use super::alarm::SensorChange;
use super::diagnostic::DiagnosticTest;
use super::injection::{self, ModuleInjection};
use super::preference_change::{self, PreferenceChange};
use crate::goal::{Targets, target_modules};
use crate::ipmctl::change::{IGNORED, PAYLOADS};
use crate::ipmctl::display::DisplayOptions;
use crate::ipmctl::refusal::{
    DIAGNOSE, DUMP_CONFIG, LOAD_FIRMWARE, LOAD_GOAL, Refusal, SET_DIMM, SET_PREFERENCES, SET_SENSOR, Words,
};
use crate::ipmctl::syntax::{Line, SyntaxError};
use crate::ipmctl::values;
use crate::listing::Format;
use crate::machine::{Handle, IpmctlGeneration};
use crate::platform::Platform;
use std::path::PathBuf;

/// A command with its words as they were given. Values are checked by [`prepare`](OperationCommand::prepare).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationCommand {
    kind: Kind,
    line: Line,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    SetSensor,
    SetDimm,
    SetPreferences,
    LoadFirmware,
    LoadGoal,
    DumpConfig,
    Diagnose,
}

/// A checked command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `set -sensor`.
    SetSensor {
        /// The change.
        change: SensorChange,
        /// True if it asks for confirmation, for each module.
        asks: bool,
    },
    /// `set -dimm`.
    SetDimm {
        /// The injection.
        injection: ModuleInjection,
    },
    /// `set -preferences`.
    SetPreferences {
        /// The change.
        change: PreferenceChange,
    },
    /// `load -source FILE -dimm`.
    LoadFirmware {
        /// The image.
        source: PathBuf,
        /// The modules.
        modules: Vec<Handle>,
        /// True if the image is only examined.
        examines: bool,
        /// True if it asks before a downgrade.
        asks: bool,
    },
    /// `load -source FILE -goal`.
    LoadGoal {
        /// A stored configuration.
        source: PathBuf,
        /// The modules.
        targets: Targets,
        /// Format of its output.
        display: DisplayOptions,
        /// True if it asks for confirmation.
        asks: bool,
    },
    /// `dump -destination FILE -system -config`.
    DumpConfig {
        /// The file.
        destination: PathBuf,
    },
    /// `start -diagnostic`.
    Diagnose {
        /// The tests.
        tests: Vec<DiagnosticTest>,
        /// The modules.
        modules: Vec<Handle>,
        /// Format of its output.
        display: DisplayOptions,
    },
}

impl OperationCommand {
    /// Parses a line that begins with `set`, `load`, `dump` or `start`, for a machine of this generation; `None` if the user
    /// asks for help.
    ///
    /// # Errors
    /// The line is no command of ipmctl, or one that is not emulated.
    pub fn parse(
        words: &[String],
        generation: IpmctlGeneration,
    ) -> Result<Option<OperationCommand>, Box<Refusal>> {
        let (verb, rest) = words.split_first().map_or(("", &[][..]), |(verb, rest)| (verb.as_str(), rest));
        let first = match verb.to_ascii_lowercase().as_str() {
            "set" => SET_SENSOR,
            "dump" => DUMP_CONFIG,
            "start" => DIAGNOSE,
            _ => LOAD_GOAL,
        };
        let refused = |error: &SyntaxError, command| Box::new(Refusal::syntax(error, command, generation));
        let line = Line::split(rest).map_err(|error| refused(&error, first))?;
        if line.wants_help {
            return Ok(None);
        }
        let (kind, command) = match verb.to_ascii_lowercase().as_str() {
            "set" if line.has_target("-sensor") => (Kind::SetSensor, SET_SENSOR),
            "set" if line.has_target("-dimm") => (Kind::SetDimm, SET_DIMM),
            "set" if line.has_target("-preferences") => (Kind::SetPreferences, SET_PREFERENCES),
            "set" => (Kind::SetSensor, SET_SENSOR),
            "dump" => (Kind::DumpConfig, DUMP_CONFIG),
            "start" => (Kind::Diagnose, DIAGNOSE),
            _ if line.has_target("-goal") => (Kind::LoadGoal, LOAD_GOAL),
            _ => (Kind::LoadFirmware, LOAD_FIRMWARE),
        };
        check(&line, kind).map_err(|error| refused(&error, command))?;
        let granularity = line.property(preference_change::GRANULARITY);
        if let Some(value) = granularity.filter(|_| generation != IpmctlGeneration::One) {
            let word = format!("{}={value}", preference_change::GRANULARITY);
            return Err(refused(&SyntaxError::Unexpected(word), command));
        }
        Ok(Some(OperationCommand { kind, line }))
    }

    /// Checks the values.
    ///
    /// # Errors
    /// ipmctl refuses the command on such a machine.
    pub fn prepare(&self, platform: &Platform) -> Result<Operation, Box<Refusal>> {
        let words = Words(platform.machine.profile.ipmctl);
        let display = values::display(&self.line, words)?;
        let targets = values::targets(&self.line, &platform.machine)?;
        let asks = !self.line.has_option("-force");
        let file = |option| match self.line.option(option) {
            Some(path) => Ok(PathBuf::from(path)),
            None => Err(Box::new(Refusal::no_file(option))),
        };
        let modules = |command| {
            let found = target_modules(&platform.machine, &targets);
            let found = found.map_err(|error| Box::new(Refusal::goal(error, command, words.0)))?;
            Ok::<_, Box<Refusal>>(found.iter().map(|module| module.handle).collect::<Vec<_>>())
        };
        Ok(match self.kind {
            Kind::SetSensor => {
                let change = SensorChange::of_line(&self.line, modules(SET_SENSOR)?, words)?;
                Operation::SetSensor { change, asks }
            }
            Kind::SetDimm => {
                let modules = modules(SET_DIMM)?;
                Operation::SetDimm { injection: ModuleInjection::of_line(&self.line, modules, platform)? }
            }
            Kind::SetPreferences => {
                Operation::SetPreferences { change: PreferenceChange::of_line(&self.line, platform)? }
            }
            Kind::LoadFirmware => Operation::LoadFirmware {
                source: file("-source")?,
                modules: modules(LOAD_FIRMWARE)?,
                examines: self.line.has_option("-examine"),
                asks,
            },
            Kind::LoadGoal => {
                // Output for programs asks nothing.
                let asks = asks && display.format == Format::Text;
                Operation::LoadGoal { source: file("-source")?, targets, display, asks }
            }
            Kind::DumpConfig => Operation::DumpConfig { destination: file("-destination")? },
            Kind::Diagnose => Operation::Diagnose {
                tests: tests(self.line.target("-diagnostic"))?,
                modules: diagnosed(platform, &targets),
                display,
            },
        })
    }
}

/// Returns the tests of a list; all without one.
fn tests(list: Option<&str>) -> Result<Vec<DiagnosticTest>, Box<Refusal>> {
    let names = values::parts(list);
    let chosen = |test: &DiagnosticTest| {
        names.is_empty() || names.iter().any(|name| name.eq_ignore_ascii_case(test.name()))
    };
    let is_known =
        |name: &&str| DiagnosticTest::ALL.iter().any(|test| test.name().eq_ignore_ascii_case(name));
    match names.iter().find(|name| !is_known(name)) {
        Some(name) => Err(Box::new(Refusal::no_diagnostic(name))),
        None => Ok(DiagnosticTest::ALL.into_iter().filter(chosen).collect()),
    }
}

/// Returns the modules to be tested. Those that are dead are, too.
fn diagnosed(platform: &Platform, targets: &Targets) -> Vec<Handle> {
    let all = platform.machine.modules.iter().map(|module| module.handle);
    all.filter(|module| targets.modules.is_empty() || targets.modules.contains(module)).collect()
}

/// Checks that the line has the parts of its command, and no others.
fn check(line: &Line, kind: Kind) -> Result<(), SyntaxError> {
    let flags = |more: &[&'static str]| [&IGNORED[..], more].concat();
    let payloads = |more: &[&'static str]| [&PAYLOADS[..], more].concat();
    let (required, result) = match kind {
        Kind::SetSensor => {
            ("-sensor", line.check(&flags(&["-force"]), &["-output"], &["-sensor", "-dimm"], true))
        }
        Kind::SetDimm => ("-dimm", line.check(&flags(&["-force"]), &["-output"], &["-dimm"], true)),
        Kind::SetPreferences => {
            ("-preferences", line.check(&flags(&[]), &["-output"], &["-preferences"], true))
        }
        Kind::LoadFirmware => {
            let flags = flags(&payloads(&["-force", "-examine", "-recover"]));
            ("-dimm", line.check(&flags, &["-source", "-output"], &["-dimm"], false))
        }
        Kind::LoadGoal => {
            let with_value = ["-source", "-units", "-output"];
            let targets = ["-goal", "-dimm", "-socket"];
            ("-goal", line.check(&flags(&payloads(&["-force"])), &with_value, &targets, false))
        }
        Kind::DumpConfig => {
            let with_value = ["-destination", "-output"];
            ("-config", line.check(&flags(&PAYLOADS), &with_value, &["-system", "-config"], false))
        }
        Kind::Diagnose => {
            let targets = ["-diagnostic", "-dimm"];
            ("-diagnostic", line.check(&flags(&PAYLOADS), &["-output"], &targets, false))
        }
    };
    result?;
    let is_whole = match kind {
        Kind::SetSensor => line.target("-sensor").is_some(),
        Kind::DumpConfig => line.has_target("-system"),
        Kind::SetDimm | Kind::SetPreferences | Kind::LoadFirmware | Kind::LoadGoal | Kind::Diagnose => true,
    };
    // Properties of goals belong to goals.
    let is_known = |name: &str| match kind {
        Kind::SetDimm => injection::PROPERTIES.contains(&name),
        Kind::SetPreferences => preference_change::PROPERTIES.contains(&name),
        _ => name.starts_with("Alarm"),
    };
    let has_strange = line.properties.iter().any(|(name, _)| !is_known(name));
    // A target that takes no value has none.
    let is_flag = |name: &&str| line.has_target(name) && line.target(name).is_some();
    let has_value = ["-goal", "-system", "-config", "-preferences"].iter().any(is_flag);
    if line.has_target(required) && is_whole && !has_strange && !has_value {
        Ok(())
    } else {
        Err(SyntaxError::NoCommand)
    }
}
