//! `lode platform replace`.

use super::evacuate::all_must_move;
use super::execution::Execution;
use super::failed;
use super::moves::{self, ModuleName};
use super::plan::table_json;
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use crate::size;
use clap::Args;
use lode_platform::machine::{Handle, Module};
use lode_platform::plan::Step;
use lode_platform::relocate::{Destination, Exchange, ExchangeRequest, RelocateError, exchange_script};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use uuid::Uuid;

const FIELDS: &[(&str, &str)] = &[
    ("module", "the handle of the slot"),
    ("old", "the old module: its id and capacity in bytes; null if it was exchanged already"),
    ("new", "the new module: its id and capacity in bytes"),
    ("group", "the modules that are partitioned anew"),
    moves::MOVES,
    ("back", "the namespaces that come back, by their names in the beginning"),
    ("lost", "the namespaces that can't be read, and are given up"),
    moves::STEPS,
    moves::TABLE,
    moves::SCRIPT,
    moves::APPLIED,
];

const HELP: &str = "\
All that lies on the module, and on those that it is interleaved with, is evacuated as by `lode platform evacuate`. Then
the module is exchanged for a blank one, the set is made anew with the goal that it had, the machine is started, and what
had moved comes back, under its UUIDs. After a kill, or Ctrl-C, the same command goes on where it stopped.

The new module is like the old one, or described in a file as a section `[[module]]` of a machine file. A smaller one makes
the set smaller; that is refused if what was on it has no room then. One that is dead, locked, or has a passphrase is
refused. So is one whose labels (--labels, a label area as `ndctl read-labels` writes it) describe namespaces of
another set; --force erases them. A dead module is replaced with --force only, since what was interleaved over it is lost.

Examples:
  lode platform replace 0x0101
  lode platform replace nmem1 --to /backup --apply
  lode platform replace nmem1 --capacity 64GiB --with new-module.toml --apply
  lode platform replace nmem1 --commands > replace.sh";

/// Exchange a module: what lies on it leaves before, and comes back
#[derive(Args, Debug)]
#[command(after_help = HELP, after_long_help = format!("{HELP}\n\n{}", fields::help(FIELDS)))]
pub(crate) struct Replace {
    /// The module: nmem1, 0x0101, or the name of its slot
    #[arg(value_name = "DIMM", value_parser = moves::module_name)]
    module: ModuleName,
    /// The new module: a file with one section `[[module]]` of a machine file
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
    /// Capacity of the new module, which is like the old one otherwise
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "with")]
    capacity: Option<u64>,
    /// The label area of the new module
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// A region, or a folder for files, meanwhile; repeat it for others that are tried in this order
    #[arg(long, value_name = "REGION|FOLDER", value_parser = moves::destination)]
    to: Vec<Destination>,
    /// Give up what can't be read, is gone or has no labels, and what the labels of the new module describe; take what has
    /// changed as it is
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    execution: Execution,
}

const WHAT: &str = "replacing a module";

pub(crate) fn run(replace: &Replace) -> Result<Output, Failure> {
    if replace.execution.location.is_real() {
        return Err(Failure::usage_error(
            "kernels don't show how firmware provisions modules: describe this machine in a file, `lode platform init --from-sysfs \
             --state DIR`, and rehearse the exchange there with --commands; `lode platform evacuate --commands` prints \
             the script of the first part for this one",
        ));
    }
    let mut directory = replace.execution.open()?;
    if replace.execution.apply {
        directory.settle_moves().map_err(failed(WHAT))?;
    }
    let module = replace.module.find(directory.platform())?;
    let new = match (&replace.with, replace.capacity) {
        (Some(path), _) => Some(described(path, module)?),
        (None, Some(capacity)) => {
            let like = directory.successor_of(module).map_err(failed(WHAT))?;
            Some(Module { capacity, ..like })
        }
        (None, None) => None,
    };
    let labels = match &replace.labels {
        Some(path) => Some(fs::read(path).map_err(|error| Failure::io("reading labels", path, &error))?),
        None => None,
    };
    let request =
        ExchangeRequest { module, new, labels, to: moves::absolute(&replace.to), force: replace.force };
    let plan = directory.plan_exchange(&request, &mut Uuid::new_v4).map_err(failed(WHAT))?;
    let steps = steps(&plan);
    let remark = remark(&plan);
    let script = exchange_script(remark.as_slice(), &plan);
    let mut text = if replace.execution.commands {
        script.clone()
    } else {
        let mut head = String::new();
        let lines = moves::contents(Some(&directory), &plan.evacuation.moves);
        if !lines.is_empty() {
            head = format!("On {module}:\n");
            lines.iter().for_each(|line| head += &format!("{line}\n"));
        }
        remark.iter().for_each(|remark| head += &format!("{remark}.\n"));
        moves::plan_text(&head, &steps, &plan.evacuation.lost, directory.platform(), &plan.after)
    };
    let output = Output::text(String::new())
        .with("module", module.to_string())
        .with("old", plan.old.as_ref().map(module_json))
        .with("new", module_json(&plan.new))
        .with("group", plan.group.iter().map(ToString::to_string).collect::<Vec<_>>())
        .with("moves", moves::moves_json(Some(&directory), &plan.evacuation.moves))
        .with("back", plan.back.iter().map(|one| one.device.clone()).collect::<Vec<_>>())
        .with("lost", plan.evacuation.lost.clone())
        .with("steps", steps)
        .with("table", table_json(&plan.after));
    if replace.execution.apply {
        let len = moves::copied_len(&plan.evacuation.moves, &plan.back);
        moves::carried_out(WHAT, len, |progress, uuids| {
            directory.replace(&plan, uuids, progress, &mut |_, _| {})
        })?;
        text += &format!(
            "\nDone: {} is in slot {module}, {} namespaces are back, each compared with its copy.\n",
            identity(&plan.new),
            plan.back.len()
        );
    }
    Ok(replace.execution.add_to(output.with_text(text), replace.execution.apply, &script))
}

/// Reads the description of the new module.
fn described(path: &Path, module: Handle) -> Result<Module, Failure> {
    let mut modules = super::extend::described(path)?;
    match (modules.pop(), modules.pop()) {
        (Some(one), None) => Ok(one),
        _ => {
            let fault = "is one of several, or of none, in the file".to_owned();
            let remedy = "describe one module";
            Err(failed(WHAT)(RelocateError::NewModule { module, fault, remedy }))
        }
    }
}

fn identity(module: &Module) -> String {
    module.identity.map_or_else(|| "a module without identity".to_owned(), |id| id.to_string())
}

fn module_json(module: &Module) -> Value {
    json!({ "id": module.identity.map(|id| id.to_string()), "capacity": module.capacity })
}

fn remark(plan: &Exchange) -> Option<String> {
    let module = plan.new.handle;
    let others: Vec<String> =
        plan.group.iter().filter(|one| **one != module).map(ToString::to_string).collect();
    let regions: Vec<String> =
        plan.evacuation.regions.iter().map(|number| format!("region{number}")).collect();
    (!others.is_empty()).then(|| all_must_move(&regions.join(", "), &module.to_string(), &others.join(", ")))
}

fn steps(plan: &Exchange) -> Vec<String> {
    let mut steps = moves::leaving(&plan.evacuation.moves);
    if let Some(old) = &plan.old {
        let (old_size, new_size) = (moves::bytes(old.capacity), moves::bytes(plan.new.capacity));
        steps.push(format!(
            "power off, exchange {} ({old_size}) in slot {} for {} ({new_size}), and power on",
            identity(old),
            old.handle,
            identity(&plan.new)
        ));
    }
    if let Some(goal) = &plan.goal {
        let others: Vec<Handle> = plan.group.iter().copied().filter(|one| *one != plan.new.handle).collect();
        if !others.is_empty() {
            steps.push(Step::ClearConfiguration { modules: others }.describe());
        }
        steps.push(Step::CreateGoals { request: goal.clone() }.describe());
        steps.push(Step::Reboot.describe());
    }
    steps.extend(moves::coming_back(&plan.back));
    steps
}
