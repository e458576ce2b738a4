//! `lode ipmctl`: the commands of ipmctl. It shows any machine, and changes emulated ones.

mod grammar;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::fields;
use crate::platform::{Place, Seen, failed, real};
use clap::Args;
use grammar::{Request, parse};
use lode_platform::goal;
use lode_platform::ipmctl::{self, Display, created_goals, goals_to_confirm};
use lode_platform::{Directory, Format, GoalRequest, Handle, Platform, PlatformError, Purpose, Targets};
use std::io::{self, BufRead, IsTerminal, Write};

/// The commands, for help and the manual page.
const WORDS: &str = "\
Words:
  show -topology [-dimm IDS] [-socket IDS]      what is plugged in
  show -dimm [IDS] [-socket IDS]                the modules; -a tells everything
  show -memoryresources                         what all capacity is used for
  show -region [-socket IDS]                    mapped persistent memory
  show -goal [-dimm IDS] [-socket IDS]          what changes at the next start
  show -dimm [IDS] -pcd Config                  what firmware keeps on the modules
  show -sensor [KINDS] [-dimm IDS]              what the modules measure
  show -system -capabilities                    what platform and firmware can do
  create -goal [-dimm IDS] [-socket IDS] [MemoryMode=%] [Reserved=%]
         [PersistentMemoryType=AppDirect|AppDirectNotInterleaved]
         [NamespaceLabelVersion=1.1|1.2]        divide modules anew at the next start
  delete -goal [-dimm IDS] [-socket IDS]        take that back

Options:
  -a, -all        all values                    -u, -units UNIT     B, MB, MiB, GB, GiB, TB or TiB
  -d, -display V  these values                  -o, -output FORMAT  text or nvmxml
  -f, -force      do not ask before goals are made";

const FIELDS: &[(&str, &str)] = &[
    ("output", "what is printed without --json"),
    ("commands", "instead, if a real machine would change: what to run"),
];

/// Returns the last sections of the help.
pub(crate) fn help() -> String {
    format!("{WORDS}\n\n{}", fields::help(FIELDS))
}

/// Arguments of `lode ipmctl`.
#[derive(Args, Debug)]
pub(crate) struct Ipmctl {
    #[command(flatten)]
    pub(crate) place: Place,
    /// A command of ipmctl, with its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "WORDS")]
    words: Vec<String>,
}

pub(crate) fn run(ipmctl: &Ipmctl) -> Result<Answer, Failure> {
    let text = match parse(&ipmctl.words)? {
        Request::Help => format!("{WORDS}\n"),
        Request::Show { subject, targets, display } => {
            let shown = match ipmctl.place.look()? {
                Seen::Emulated(directory) => {
                    let shown = ipmctl::show(directory.platform(), &subject, &targets, &display);
                    shown.map_err(PlatformError::from)
                }
                Seen::Real(sysfs) => sysfs.show(&subject, &targets, &display).map_err(PlatformError::from),
            };
            shown.map_err(failed("showing a machine"))?
        }
        _ if ipmctl.place.is_real() => {
            return Ok(real::left_to_tools(&[real::command("ipmctl", ipmctl.words.clone())]));
        }
        Request::CreateGoal { request, display, force } => {
            create_goal(&mut ipmctl.place.open(Purpose::Change)?, &request, &display, force)?
        }
        Request::DeleteGoal { targets } => delete_goal(&mut ipmctl.place.open(Purpose::Change)?, &targets)?,
    };
    Ok(Answer::text(text.clone()).with("output", text))
}

fn create_goal(
    directory: &mut Directory,
    request: &GoalRequest,
    display: &Display,
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
    out.write_all(question.as_bytes()).and_then(|()| out.flush()).map_err(Failure::output)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| Failure::new("reading the answer", error))?;
    if !io::stdin().is_terminal() {
        writeln!(out).map_err(Failure::output)?;
    }
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(what, "not confirmed, nothing is changed; -f does not ask")),
    }
}
