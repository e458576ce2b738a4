//! `lode ipmctl`: the commands of ipmctl. It shows any machine, and changes emulated ones.

mod grammar;
mod operation;

use crate::failure::Failure;
use crate::fields;
use crate::ndctl::listing_value;
use crate::output::Output;
use crate::platform::{MachineLocation, OpenedMachine, failed, real};
use clap::Args;
use grammar::{Request, parse};
use lode_platform::goal::{self, GoalWarning};
use lode_platform::ipmctl::{
    self, ChangeCommand, DisplayOptions, Prepared, Refusal, cleared_text, created_goals, deleted_text,
    goals_to_confirm, warning_text,
};
use lode_platform::machine::IpmctlGeneration;
use lode_platform::{Directory, Format, Goal, Handle, Platform, PlatformError, Purpose};
use serde_json::{Value, json};
use std::io::{self, BufRead, IsTerminal, Write};

/// The commands, for help and the manual page.
const COMMANDS: &str = "\
Commands:
  show -topology [-dimm IDS] [-socket IDS]      the plugged in modules
  show -dimm [IDS] [-socket IDS]                the modules; -a for all values
  show -memoryresources                         use of all capacity
  show -region [-socket IDS]                    mapped persistent memory
  show -goal [-dimm IDS] [-socket IDS]          changes at the next boot
  show -dimm [IDS] -pcd Config                  the platform configuration data
  show -sensor [KINDS] [-dimm IDS]              sensors of the modules
  show -error Media|Thermal [-dimm IDS] [SequenceNumber=N] [Level=High|Low] [Count=N]
                                                entries of the error logs of modules
  show -firmware [-dimm IDS]                    running and staged firmware
  show -socket [IDS]                            mapped memory of each socket
  show -system -capabilities                    abilities of platform and firmware
  show -preferences                             preferences of the tool
  create [-f] [-u UNIT] -goal [-dimm IDS] [-socket IDS] [MemoryMode=%]
         [PersistentMemoryType=AppDirect|AppDirectNotInterleaved] [Reserved=%]
         [NamespaceLabelVersion=1.1|1.2]        provision modules at the next boot
  delete -goal [-dimm IDS] [-socket IDS]        delete such goals
  delete [-f] -pcd [Config] [-dimm IDS]         make modules count as not configured
  set [-f] -sensor SENSOR [-dimm IDS] [AlarmThreshold=N] [AlarmEnabled=0|1]
                                                set the alarm of a sensor
  set -dimm [IDS] [Clear=1] Temperature=C|Poison=ADDRESS [PoisonType=PatrolScrub|AppDirect|
         MemoryMode]|PercentageRemaining=%|FatalMediaError=1|DirtyShutdown=1
                                                inject a value or an error, or end that
  set -preferences [CLI_DEFAULT_DIMM_ID=HANDLE|UID] [CLI_DEFAULT_SIZE=AUTO|AUTO_10|UNIT]
         [APPDIRECT_SETTINGS=RECOMMENDED|4KB_4KB] [DBG_LOG_LEVEL=0-4]
                                                keep preferences of listings and goals
  load [-f|-x] -source FILE -dimm [IDS]         stage firmware, or examine its image
  dump -destination FILE -system -config        store the configuration in a file
  load [-f] -source FILE -goal [-dimm IDS] [-socket IDS]
                                                provision modules as such a file says
  start -diagnostic [TESTS] [-dimm IDS]         look for faults: Quick, Config, Security, FW
  version                                       the version of ipmctl that the machine has
  help                                          this text

Options:
  -a, -all        all values                    -u, -units UNIT     B, MB, MiB, GB, GiB, TB or TiB
  -d, -display V  these values                  -o, -output FORMAT  text or nvmxml
  -f, -force      change modules without confirmation

All but show take their words in ipmctl's order: options, then targets, then properties. What ipmctl
refuses is refused in its words, on standard output, with its exit code: 201 for a wrong line, 1 for the
rest. docs/ipmctl-rules.md has the rules: a goal takes all modules of a socket, or all not configured.";

const FIELDS: &[(&str, &str)] = &[
    (
        "output",
        "an object for each module, region, goal or row, with the values of ipmctl under their names: those of the table, with -a all, \
         with -d the named ones. Capacities are numbers of bytes, sensors numbers in the unit that the text shows, ids texts as \
         \"0x0001\" (DimmID is the UID if the preferences say so), and values that are not known null. `Sensor` has the sensors of a module, `Error` the entries of its log, `Tables` its configuration data. \
         `create -goal` and `load -goal` have the goals as `show -goal` does, `set -preferences` the preferences; `delete`, other `set` and `load -dimm` have the handle of \
         each module as DimmID, and `dump` has the file",
    ),
    ("commands", "instead, if a real machine would change: the commands to run"),
];

/// Returns the last sections of the help.
pub(crate) fn help() -> String {
    format!("{COMMANDS}\n\n{}", fields::help(FIELDS))
}

/// Arguments of `lode ipmctl`.
#[derive(Args, Debug)]
pub(crate) struct Ipmctl {
    #[command(flatten)]
    pub(crate) location: MachineLocation,
    /// A command of ipmctl, with its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(ipmctl: &Ipmctl, json: bool) -> Result<Output, Failure> {
    let listing = match parse(&ipmctl.command)? {
        Request::Help => return help_output(json),
        Request::Show { subject, targets, display } => {
            let display = in_json(display, json)?;
            let shown = match ipmctl.location.open_read_only()? {
                OpenedMachine::Emulated(directory) => {
                    let shown = ipmctl::show(directory.platform(), &subject, &targets, &display);
                    shown.map_err(PlatformError::from)
                }
                OpenedMachine::Real(sysfs) => {
                    sysfs.show(&subject, &targets, &display).map_err(PlatformError::from)
                }
            };
            shown.map_err(failed("showing a machine"))?
        }
        Request::Version { format } => {
            let display = in_json(DisplayOptions { format, ..DisplayOptions::default() }, json)?;
            let generation = if ipmctl.location.is_real() {
                IpmctlGeneration::Three
            } else {
                ipmctl.location.open(Purpose::ReadOnly)?.platform().machine.profile.ipmctl
            };
            ipmctl::version(generation, display.format).map_err(failed("showing a version"))?
        }
        Request::Operate => return operation::run(ipmctl, json),
        Request::Change if ipmctl.location.is_real() => {
            let parsed = ChangeCommand::parse(&ipmctl.command, IpmctlGeneration::Three);
            return match parsed.map_err(|refusal| refused(*refusal))? {
                None => help_output(json),
                Some(_) => Ok(real::tool_commands_output(&[real::command("ipmctl", ipmctl.command.clone())])),
            };
        }
        Request::Change => return change(&mut ipmctl.location.open(Purpose::Change)?, &ipmctl.command, json),
    };
    Ok(output(listing, json))
}

/// Returns the output of a command that prints `listing`, which is JSON if `json` is true.
fn output(listing: String, json: bool) -> Output {
    if json { Output::empty().with("output", listing_value(&listing)) } else { Output::text(listing) }
}

/// Returns the options with the format of `--json`.
fn in_json(display: DisplayOptions, json: bool) -> Result<DisplayOptions, Failure> {
    match display.format {
        Format::Xml if json => Err(Failure::usage_error("--json and -output nvmxml exclude each other")),
        _ if json => Ok(DisplayOptions { format: Format::Json, ..display }),
        _ => Ok(display),
    }
}

/// Prints the commands, as text like all help.
fn help_output(json: bool) -> Result<Output, Failure> {
    let help = Output::text(format!("{COMMANDS}\n"));
    if json { help.print(false).map(|_| Output::empty()) } else { Ok(help) }
}

/// Carries out a command that changes modules.
fn change(directory: &mut Directory, words: &[String], json: bool) -> Result<Output, Failure> {
    let generation = directory.platform().machine.profile.ipmctl;
    let Some(command) = ChangeCommand::parse(words, generation).map_err(|refusal| refused(*refusal))? else {
        return help_output(json);
    };
    match command.prepare(directory.platform()).map_err(|refusal| refused(*refusal))? {
        Prepared::Create { goals, warnings, display, asks } => {
            let listed = in_json(display.clone(), json)?;
            if asks {
                confirm_goals(directory.platform(), &goals, &warnings, &display, json)?;
            }
            Ok(output(create_goals(directory, &goals, &listed, asks)?, json))
        }
        Prepared::Delete { targets } => {
            let deleted = directory.change(|platform| goal::delete(platform, &targets));
            let deleted = deleted.map_err(failed("deleting a goal"))?;
            Ok(Output::text(deleted_text(&deleted, generation)).with("output", modules(&deleted)))
        }
        Prepared::Clear { targets, asks } => {
            let what = "deleting configuration data";
            if asks {
                confirm("Delete the configuration data? Do you want to continue? [y/n] ", what, json)?;
            }
            let cleared = directory.change(|platform| goal::clear(platform, &targets));
            let cleared = cleared.map_err(failed(what))?;
            Ok(Output::text(cleared_text(&cleared, generation)).with("output", modules(&cleared)))
        }
    }
}

/// Returns the JSON of modules that were changed.
fn modules(handles: &[Handle]) -> Value {
    handles.iter().map(|handle| json!({ "DimmID": handle.to_string() })).collect()
}

const CREATING: &str = "creating a goal";

/// Shows the goals, and asks the user for confirmation.
fn confirm_goals(
    platform: &Platform,
    goals: &[Goal],
    warnings: &[GoalWarning],
    display: &DisplayOptions,
    json: bool,
) -> Result<(), Failure> {
    let table = goals_to_confirm(platform, goals, display).map_err(failed(CREATING))?;
    let warnings: String = warnings.iter().map(|one| format!("{}\n", warning_text(*one))).collect();
    confirm(&format!("{table}{warnings}Do you want to continue? [y/n] "), CREATING, json)
}

/// Creates goals; returns their listing.
fn create_goals(
    directory: &mut Directory,
    goals: &[Goal],
    display: &DisplayOptions,
    asked: bool,
) -> Result<String, Failure> {
    let change = |platform: &mut Platform| {
        goal::create(platform, goals.to_vec());
        created_goals(platform, goals, display, asked)
    };
    directory.change(change).map_err(failed(CREATING))
}

/// Returns the failure of a refused command: ipmctl's output and exit code, and the reason with its objects.
fn refused(refusal: Refusal) -> Failure {
    Failure::of_tool(refusal.output, refusal.code, refusal.why)
}

/// Asks the user for confirmation, on standard error if standard output is for JSON. Every answer but yes is a failure.
fn confirm(question: &str, what: &str, json: bool) -> Result<(), Failure> {
    let mut out: Box<dyn Write> = if json { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
    out.write_all(question.as_bytes()).and_then(|()| out.flush()).map_err(Failure::stdout)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| Failure::new("reading the answer", error))?;
    if !io::stdin().is_terminal() {
        writeln!(out).map_err(Failure::stdout)?;
    }
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(what, "not confirmed, nothing is changed; -f does not ask")),
    }
}
