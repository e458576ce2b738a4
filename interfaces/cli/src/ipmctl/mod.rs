//! `lode ipmctl`: the commands of ipmctl. It shows any machine, and changes emulated ones.

mod grammar;

use crate::failure::Failure;
use crate::fields;
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
use lode_platform::{Directory, Goal, Platform, PlatformError, Purpose};
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
  show -system -capabilities                    abilities of platform and firmware
  create [-f] [-u UNIT] -goal [-dimm IDS] [-socket IDS] [MemoryMode=%]
         [PersistentMemoryType=AppDirect|AppDirectNotInterleaved] [Reserved=%]
         [NamespaceLabelVersion=1.1|1.2]        provision modules at the next boot
  delete -goal [-dimm IDS] [-socket IDS]        delete such goals
  delete [-f] -pcd [Config] [-dimm IDS]         make modules count as not configured

Options:
  -a, -all        all values                    -u, -units UNIT     B, MB, MiB, GB, GiB, TB or TiB
  -d, -display V  these values                  -o, -output FORMAT  text or nvmxml
  -f, -force      change modules without confirmation

create and delete take their words in ipmctl's order: options, then targets, then properties. What ipmctl
refuses is refused in its words, on standard output, with its exit code: 201 for a wrong line, 1 for the
rest. docs/ipmctl-rules.md has the rules: a goal takes all modules of a socket, or all not configured.";

const FIELDS: &[(&str, &str)] = &[
    ("output", "the text that is printed without --json"),
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

pub(crate) fn run(ipmctl: &Ipmctl) -> Result<Output, Failure> {
    let text = match parse(&ipmctl.command)? {
        Request::Help => format!("{COMMANDS}\n"),
        Request::Show { subject, targets, display } => {
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
        Request::Change if ipmctl.location.is_real() => {
            let parsed = ChangeCommand::parse(&ipmctl.command, IpmctlGeneration::Three);
            return match parsed.map_err(|refusal| refused(*refusal))? {
                None => Ok(Output::text(format!("{COMMANDS}\n")).with("output", COMMANDS)),
                Some(_) => Ok(real::tool_commands_output(&[real::command("ipmctl", ipmctl.command.clone())])),
            };
        }
        Request::Change => change(&mut ipmctl.location.open(Purpose::Change)?, &ipmctl.command)?,
    };
    Ok(Output::text(text.clone()).with("output", text))
}

/// Carries out a command that changes modules.
fn change(directory: &mut Directory, words: &[String]) -> Result<String, Failure> {
    let generation = directory.platform().machine.profile.ipmctl;
    let Some(command) = ChangeCommand::parse(words, generation).map_err(|refusal| refused(*refusal))? else {
        return Ok(format!("{COMMANDS}\n"));
    };
    match command.prepare(directory.platform()).map_err(|refusal| refused(*refusal))? {
        Prepared::Create { goals, warnings, display, asks } => {
            create_goal(directory, &goals, &warnings, &display, asks)
        }
        Prepared::Delete { targets } => {
            let deleted = directory.change(|platform| goal::delete(platform, &targets));
            Ok(deleted_text(&deleted.map_err(failed("deleting a goal"))?, generation))
        }
        Prepared::Clear { targets, asks } => {
            let what = "deleting configuration data";
            if asks {
                confirm("Delete the configuration data? Do you want to continue? [y/n] ", what)?;
            }
            let cleared = directory.change(|platform| goal::clear(platform, &targets));
            Ok(cleared_text(&cleared.map_err(failed(what))?, generation))
        }
    }
}

fn create_goal(
    directory: &mut Directory,
    goals: &[Goal],
    warnings: &[GoalWarning],
    display: &DisplayOptions,
    asks: bool,
) -> Result<String, Failure> {
    let what = "creating a goal";
    if asks {
        let table = goals_to_confirm(directory.platform(), goals, display).map_err(failed(what))?;
        let warnings: String = warnings.iter().map(|one| format!("{}\n", warning_text(*one))).collect();
        confirm(&format!("{table}{warnings}Do you want to continue? [y/n] "), what)?;
    }
    let change = |platform: &mut Platform| {
        goal::create(platform, goals.to_vec());
        created_goals(platform, goals, display, asks)
    };
    directory.change(change).map_err(failed(what))
}

/// Returns the failure of a refused command: ipmctl's output and exit code, and the reason with its objects.
fn refused(refusal: Refusal) -> Failure {
    Failure::of_tool(refusal.output, refusal.code, refusal.why)
}

/// Asks the user for confirmation. Every answer but yes is a failure.
fn confirm(question: &str, what: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
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
