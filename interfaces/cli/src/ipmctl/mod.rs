//! `lode ipmctl`: the commands of ipmctl. It shows any machine, and changes emulated ones.

mod grammar;

use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use crate::platform::{MachineLocation, OpenedMachine, failed, real};
use clap::Args;
use grammar::{Request, parse};
use lode_platform::goal;
use lode_platform::ipmctl::{self, DisplayOptions, created_goals, goals_to_confirm};
use lode_platform::{Directory, Format, GoalRequest, Handle, Platform, PlatformError, Purpose, Targets};
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
  create -goal [-dimm IDS] [-socket IDS] [MemoryMode=%] [Reserved=%]
         [PersistentMemoryType=AppDirect|AppDirectNotInterleaved]
         [NamespaceLabelVersion=1.1|1.2]        provision modules at the next boot
  delete -goal [-dimm IDS] [-socket IDS]        delete such goals

Options:
  -a, -all        all values                    -u, -units UNIT     B, MB, MiB, GB, GiB, TB or TiB
  -d, -display V  these values                  -o, -output FORMAT  text or nvmxml
  -f, -force      create goals without confirmation";

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
        _ if ipmctl.location.is_real() => {
            return Ok(real::tool_commands_output(&[real::command("ipmctl", ipmctl.command.clone())]));
        }
        Request::CreateGoal { request, display, force } => {
            create_goal(&mut ipmctl.location.open(Purpose::Change)?, &request, &display, force)?
        }
        Request::DeleteGoal { targets } => {
            delete_goal(&mut ipmctl.location.open(Purpose::Change)?, &targets)?
        }
    };
    Ok(Output::text(text.clone()).with("output", text))
}

fn create_goal(
    directory: &mut Directory,
    request: &GoalRequest,
    display: &DisplayOptions,
    force: bool,
) -> Result<String, Failure> {
    let what = "creating a goal";
    let goals = goal::plan(directory.platform(), request).map_err(failed(what))?;
    if !force && display.format == Format::Text {
        let table = goals_to_confirm(directory.platform(), &goals, display).map_err(failed(what))?;
        confirm(&format!("{table}Do you want to continue? [y/n] "), what)?;
    }
    let change = |platform: &mut Platform| {
        goal::create(platform, goals.clone());
        created_goals(platform, &goals, display)
    };
    directory.change(change).map_err(failed(what))
}

fn delete_goal(directory: &mut Directory, targets: &Targets) -> Result<String, Failure> {
    let deleted = directory.change(|platform| goal::delete(platform, targets));
    let deleted = deleted.map_err(failed("deleting a goal"))?;
    if deleted.is_empty() {
        return Ok("There are no goal configs defined in the system.\n".to_owned());
    }
    let line = |module: &Handle| format!("Delete memory allocation goal from DIMM {module}: Success\n");
    Ok(deleted.iter().map(line).collect())
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
