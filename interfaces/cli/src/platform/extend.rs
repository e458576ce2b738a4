//! `lode platform extend`.

use super::execution::Execution;
use super::plan::table_json;
use super::{failed, moves};
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use crate::size;
use clap::Args;
use lode_platform::PersistentKind;
use lode_platform::image::FileSystem;
use lode_platform::machine::Module;
use lode_platform::plan::Step;
use lode_platform::relocate::{ExtensionRequest, RelocateError, extension, extension_script, growth_script};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use uuid::Uuid;

const FIELDS: &[(&str, &str)] = &[
    ("new", "the new modules: of each its handle, id and capacity in bytes"),
    ("goal", "of modules: the command that makes the goal"),
    ("namespace", "of a namespace: its name"),
    ("size", "of a namespace: its size in bytes afterwards"),
    moves::STEPS,
    moves::TABLE,
    moves::SCRIPT,
    moves::APPLIED,
];

const HELP: &str = "\
Modules: those of --with are put into empty slots; without it, those of the machine that are not configured are meant.
They get a goal by the rules of ipmctl, and the others stay as they are: generation 1 takes all modules of a socket that
are not configured, later ones also the rest of a socket whose other modules are not interleaved. The machine is started.

A namespace grows in its region and keeps its content, its UUID and its name. Its data is copied to a file in the directory
of the machine, and back, since page map and BTT of a larger one lie elsewhere; each copy is read back and compared.
The file system on it is as large as before: grow it with resize2fs or xfs_growfs.

Each step is one change. After a kill, or Ctrl-C, the same command goes on.

Examples:
  lode platform extend --with new-modules.toml
  lode platform extend --with new-modules.toml --not-interleaved --apply
  lode platform extend namespace0.0 --size 200GiB --apply
  lode platform extend namespace0.0 --size max --commands --file /backup/data.img";

/// Add modules, or let a namespace grow with its content
#[derive(Args, Debug)]
#[command(after_help = HELP, after_long_help = format!("{HELP}\n\n{}", fields::help(FIELDS)))]
pub(crate) struct Extend {
    /// The namespace that grows; without it, modules are added
    #[arg(value_name = "NAMESPACE", requires = "size")]
    namespace: Option<String>,
    /// Size of the namespace afterwards, rounded up, or max
    #[arg(long, value_name = "SIZE", value_parser = size_or_max, requires = "namespace")]
    size: Option<Growth>,
    /// With --commands: the file that holds the data meanwhile
    #[arg(long, value_name = "FILE", requires = "namespace", default_value = "namespace.img")]
    file: PathBuf,
    /// The new modules: a file with sections `[[module]]` of a machine file
    #[arg(long, value_name = "FILE", conflicts_with = "namespace")]
    with: Option<PathBuf>,
    /// Map each module by itself
    #[arg(long, conflicts_with = "namespace")]
    not_interleaved: bool,
    /// Volatile memory, in percent of each module
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=100))]
    memory_mode: u8,
    #[command(flatten)]
    execution: Execution,
}

/// The value of `--size`.
#[derive(Clone, Copy, Debug)]
enum Growth {
    To(u64),
    Max,
}

fn size_or_max(word: &str) -> Result<Growth, String> {
    if word == "max" { Ok(Growth::Max) } else { size::parse(word).map(Growth::To) }
}

const WHAT: &str = "extending a machine";

pub(crate) fn run(extend: &Extend) -> Result<Output, Failure> {
    if extend.execution.location.is_real() {
        return Err(Failure::usage_error(
            "only for emulated machines: rehearse it on one, `lode platform init --from-sysfs --state DIR`, where --commands prints \
             the commands for the real one",
        ));
    }
    match (&extend.namespace, extend.size) {
        (Some(name), Some(growth)) => grow(extend, name, growth),
        _ => add_modules(extend),
    }
}

/// Reads the modules that a file describes.
pub(super) fn described(path: &Path) -> Result<Vec<Module>, Failure> {
    let text = fs::read(path).map_err(|error| Failure::io("reading modules", path, &error))?;
    let text = String::from_utf8_lossy(&text);
    Module::parse_all(&text).map_err(|error| {
        let path = path.to_owned();
        failed("reading modules")(RelocateError::Modules { path, error })
    })
}

fn add_modules(extend: &Extend) -> Result<Output, Failure> {
    let new = extend.with.as_deref().map_or(Ok(Vec::new()), described)?;
    let mut directory = extend.execution.open()?;
    let kind = if extend.not_interleaved {
        PersistentKind::AppDirectNotInterleaved
    } else {
        PersistentKind::AppDirect
    };
    let request = ExtensionRequest { new, memory_percent: extend.memory_mode, kind };
    let plan = extension(directory.platform(), &request).map_err(failed(WHAT))?;
    let goal = Step::CreateGoals { request: plan.goal.clone() };
    let place = |module: &Module| {
        let size = moves::bytes(module.capacity);
        format!(
            "put a module of {size} into slot {} ({})",
            lode_platform::one_line(&module.locator),
            module.handle
        )
    };
    let mut steps: Vec<String> = plan.new.iter().map(place).collect();
    steps.extend([goal.describe(), Step::Reboot.describe()]);
    let script = extension_script(&plan);
    let mut text = if extend.execution.commands {
        script.clone()
    } else {
        moves::plan_text("", &steps, &[], directory.platform(), &plan.after)
    };
    if extend.execution.apply {
        directory.extend(&plan).map_err(failed(WHAT))?;
        text += "\nDone, as one change.\n";
    }
    let new = |module: &Module| {
        let id = module.identity.map(|id| id.to_string());
        json!({ "handle": module.handle.to_string(), "id": id, "capacity": module.capacity })
    };
    let output = Output::text(text)
        .with("new", plan.new.iter().map(new).collect::<Vec<Value>>())
        .with("goal", goal.command())
        .with("steps", steps)
        .with("table", table_json(&plan.after));
    Ok(extend.execution.add_to(output, extend.execution.apply, &script))
}

fn grow(extend: &Extend, name: &str, growth: Growth) -> Result<Output, Failure> {
    let what = "growing a namespace";
    let mut directory = extend.execution.open()?;
    if extend.execution.apply {
        directory.settle_moves().map_err(failed(what))?;
    }
    let size = match growth {
        Growth::To(size) => Some(size),
        Growth::Max => None,
    };
    let plan = directory.plan_growth(name, size, &mut Uuid::new_v4).map_err(failed(what))?;
    let from = moves::bytes(plan.step.relocation.size);
    let mut steps = vec![
        format!("copy the data of {name} to a file, read both back, and compare"),
        format!("make {name} anew in place of the one of {from}: {}", moves::bytes(plan.size)),
        "copy the data back, read it back, compare, and remove the file".to_owned(),
    ];
    // One that was destroyed while it grew is not there.
    let found = directory.file_system(name).ok().and_then(|(_, found)| found);
    let tool = found.as_ref().map(grow_tool);
    steps.extend(tool.map(|tool| format!("then grow the file system yourself, with {tool}")));
    let region =
        directory.platform().namespace(name).map_or(plan.step.relocation.region(), |found| found.0.number);
    let script = growth_script(&plan, region, &extend.file);
    let mut text = if extend.execution.commands {
        script.clone()
    } else {
        moves::plan_text("", &steps, &[], directory.platform(), &plan.after)
    };
    if extend.execution.apply {
        let len = plan.step.relocation.usable.saturating_mul(6);
        moves::carried_out(what, len, |progress, uuids| directory.grow(&plan, uuids, progress))?;
        text += &format!("\nDone: {name} has {}.\n", moves::bytes(plan.size));
    }
    let output = Output::text(text)
        .with("namespace", name)
        .with("size", plan.size)
        .with("steps", steps)
        .with("table", table_json(&plan.after));
    Ok(extend.execution.add_to(output, extend.execution.apply, &script))
}

fn grow_tool(found: &FileSystem) -> &'static str {
    if found.kind == "xfs" { "xfs_growfs, mounted" } else { "resize2fs" }
}
