//! `lode platform evacuate`.

use super::execution::{Execution, left_to_tools};
use super::failed;
use super::moves::{self, ModuleName};
use super::plan::table_json;
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use clap::Args;
use lode_platform::machine::ModuleError;
use lode_platform::relocate::{
    Destination, Evacuation, EvacuationRequest, RealEvacuation, evacuation_script, real_evacuation,
};
use serde_json::json;
use uuid::Uuid;

const FIELDS: &[(&str, &str)] = &[
    ("module", "the module: its handle, or nmemN of a real machine"),
    ("together", "the modules that share an interleave set with it: all of the set moves"),
    ("regions", "the numbers of the regions that become empty"),
    moves::MOVES,
    moves::STEPS,
    moves::TABLE,
    moves::SCRIPT,
    moves::APPLIED,
];

const HELP: &str = "\
Without --apply or --commands, the plan is printed: what lies on the module, where it goes, and the steps. All that is
interleaved over the module moves, also the parts on other modules. Each namespace gets a place with room for its data,
the same mode and the same name in another region, or becomes a file: an image as `lode platform image export --for
virtio-pmem` makes it. Without --to, all other regions are tried, those of the same socket first.

Each step is one change. A namespace is destroyed only after its copy was written, read back and compared. After a kill,
or Ctrl-C, the same command goes on. `--return` brings back what was moved, and so does `lode platform replace`.

Examples:
  lode platform evacuate 0x0101
  lode platform evacuate nmem1 --to region1 --to /backup --apply
  lode platform evacuate nmem1 --return --apply
  lode platform evacuate nmem1 --sysfs /sys --commands > evacuate.sh";

/// Move what lies on a module to other regions or to files
#[derive(Args, Debug)]
#[command(after_help = HELP, after_long_help = format!("{HELP}\n\n{}", fields::help(FIELDS)))]
pub(crate) struct Evacuate {
    /// The module: nmem1, 0x0101, or the name of its slot
    #[arg(value_name = "DIMM", value_parser = moves::module_name)]
    module: ModuleName,
    /// A region, or a folder for files; repeat it for others that are tried in this order
    #[arg(long, value_name = "REGION|FOLDER", value_parser = moves::destination)]
    to: Vec<Destination>,
    /// Bring back what was moved away from the module
    #[arg(long = "return", conflicts_with = "to")]
    back: bool,
    /// With --return: give up what is gone, and take what has changed as it is
    #[arg(short, long, requires = "back")]
    force: bool,
    #[command(flatten)]
    execution: Execution,
}

const WHAT: &str = "evacuating a module";

pub(crate) fn run(evacuate: &Evacuate) -> Result<Output, Failure> {
    if evacuate.execution.location.is_real() {
        return of_real(evacuate);
    }
    if evacuate.back {
        return bring_back(evacuate);
    }
    let mut directory = evacuate.execution.open()?;
    if evacuate.execution.apply {
        directory.settle_moves().map_err(failed(WHAT))?;
    }
    let request = EvacuationRequest {
        module: evacuate.module.find(directory.platform())?,
        to: moves::absolute(&evacuate.to),
        exchange: false,
        force: false,
    };
    let plan = directory.plan_evacuation(&request, &mut Uuid::new_v4).map_err(failed(WHAT))?;
    let steps = moves::leaving(&plan.moves);
    let remark = interleaved(&plan);
    let script = evacuation_script(remark.as_slice(), &plan.moves);
    let mut text = if evacuate.execution.commands {
        script.clone()
    } else {
        let mut head = format!("On {}:\n", plan.module);
        let lines = moves::contents(Some(&directory), &plan.moves);
        lines.iter().for_each(|line| head += &format!("{line}\n"));
        if lines.is_empty() {
            head = format!("No namespace has a part on {}.\n", plan.module);
        } else if let Some(remark) = &remark {
            head += &format!("{remark}.\n");
        }
        moves::plan_text(&head, &steps, &plan.lost, directory.platform(), &plan.after)
    };
    let listed = moves::moves_json(Some(&directory), &plan.moves);
    if evacuate.execution.apply && !plan.moves.is_empty() {
        let len = moves::copied_len(&plan.moves, &[]);
        moves::carried_out(WHAT, len, |progress, uuids| {
            directory.evacuate(&plan, uuids, progress, &mut |_, _| {})
        })?;
        text += &format!("\nDone: {} namespaces moved, each compared with its copy.\n", plan.moves.len());
    }
    let handles: Vec<String> = plan.together.iter().map(ToString::to_string).collect();
    let output = Output::text(text)
        .with("module", plan.module.to_string())
        .with("together", handles)
        .with("regions", plan.regions)
        .with("moves", listed)
        .with("steps", steps)
        .with("table", table_json(&plan.after));
    Ok(evacuate.execution.add_to(output, evacuate.execution.apply, &script))
}

/// Returns what is said of an interleaved set; `None` for a module by itself.
fn interleaved(plan: &Evacuation) -> Option<String> {
    let others: Vec<String> =
        plan.together.iter().filter(|one| **one != plan.module).map(ToString::to_string).collect();
    let regions: Vec<String> = plan.regions.iter().map(|number| format!("region{number}")).collect();
    (!others.is_empty())
        .then(|| all_must_move(&regions.join(", "), &plan.module.to_string(), &others.join(", ")))
}

/// Returns the sentence about an interleaved set.
pub(super) fn all_must_move(regions: &str, module: &str, others: &str) -> String {
    format!(
        "{regions}: {module} is interleaved with {others}, so all of the set must move, not one module's part"
    )
}

fn bring_back(evacuate: &Evacuate) -> Result<Output, Failure> {
    let what = "bringing namespaces back";
    let mut directory = evacuate.execution.open()?;
    if evacuate.execution.apply {
        directory.settle_moves().map_err(failed(what))?;
    }
    let module = evacuate.module.find(directory.platform())?;
    let plan = directory.plan_back(module, evacuate.force, &mut Uuid::new_v4).map_err(failed(what))?;
    let steps = moves::coming_back(&plan.back);
    let script = lode_platform::relocate::exchange_script(&[], &plan);
    let mut text = if evacuate.execution.commands {
        script.clone()
    } else {
        moves::plan_text("", &steps, &plan.evacuation.lost, directory.platform(), &plan.after)
    };
    if evacuate.execution.apply {
        let len = moves::copied_len(&[], &plan.back);
        moves::carried_out(what, len, |progress, uuids| {
            directory.replace(&plan, uuids, progress, &mut |_, _| {})
        })?;
        text += &format!("\nDone: {} namespaces are back, each compared with its copy.\n", plan.back.len());
    }
    let output = Output::text(text)
        .with("module", module.to_string())
        .with("together", json!([]))
        .with("regions", json!([]))
        .with("moves", json!([]))
        .with("steps", steps)
        .with("table", table_json(&plan.after));
    Ok(evacuate.execution.add_to(output, evacuate.execution.apply, &script))
}

/// Plans for a real machine, which is left to its own tools.
fn of_real(evacuate: &Evacuate) -> Result<Output, Failure> {
    if evacuate.back {
        return Err(Failure::usage_error(
            "only emulated machines know what was moved; the script of `lode platform replace --commands` brings it back",
        ));
    }
    let inventory = evacuate.execution.location.sysfs()?.inventory();
    let number = match &evacuate.module {
        ModuleName::Index(index) => *index,
        ModuleName::Handle(handle) => {
            let modules = inventory.buses.iter().flat_map(|bus| &bus.modules);
            let found =
                modules.filter(|one| one.handle == Some(u64::from(handle.0))).map(|one| one.number).next();
            found.ok_or_else(|| failed(WHAT)(ModuleError::UnknownModule { module: *handle }))?
        }
        ModuleName::Slot(_) => {
            return Err(Failure::usage_error("name a module of a real machine as nmem0 or 0x0001"));
        }
    };
    let to = moves::absolute(&evacuate.to);
    let plan = real_evacuation(&inventory, number, &to, &mut Uuid::new_v4).map_err(failed(WHAT))?;
    let RealEvacuation { together, regions, moves: planned } = plan;
    let others: Vec<String> =
        together.iter().filter(|one| **one != number).map(|one| format!("nmem{one}")).collect();
    let names: Vec<String> = regions.iter().map(|region| format!("region{region}")).collect();
    let remark = (!others.is_empty())
        .then(|| all_must_move(&names.join(", "), &format!("nmem{number}"), &others.join(", ")));
    let script = evacuation_script(remark.as_slice(), &planned);
    if evacuate.execution.apply && !planned.is_empty() {
        return Ok(left_to_tools(&script));
    }
    let steps = moves::leaving(&planned);
    let mut text = format!("On nmem{number}:\n");
    moves::contents(None, &planned).iter().for_each(|line| text += &format!("{line}\n"));
    if planned.is_empty() {
        text = format!("No namespace has a part on nmem{number}.\nNothing to do.\n");
    } else {
        remark.iter().for_each(|remark| text += &format!("{remark}.\n"));
        text += "\nSteps:\n";
        steps.iter().zip(1..).for_each(|(step, count)| text += &format!("  {count}. {step}\n"));
    }
    let together: Vec<String> = together.iter().map(|one| format!("nmem{one}")).collect();
    let output = Output::text(if evacuate.execution.commands { script.clone() } else { text })
        .with("module", format!("nmem{number}"))
        .with("together", together)
        .with("regions", regions)
        .with("moves", moves::moves_json(None, &planned))
        .with("steps", steps);
    Ok(evacuate.execution.add_to(output, false, &script))
}
