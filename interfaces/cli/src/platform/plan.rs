//! `lode platform plan`.

use super::real::left_to_tools;
use super::wishes::Wishes;
use super::{Place, failed};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::fields;
use clap::{Args, ValueEnum};
use lode_platform::Purpose;
use lode_platform::plan::{self, Holding, PlanRequest, Rest, Row};
use serde_json::{Value, json};
use uuid::Uuid;

const FIELDS: &[(&str, &str)] = &[
    ("steps", "what is done, in order: of each what in words, and command for a real machine"),
    ("lost", "what is lost, in words"),
    ("notes", "what to know besides, in words"),
    (
        "table",
        "afterwards: of each use of capacity its socket, region or null, how many modules share it, size in bytes, and \
         what: memory, free, reserved, not configured, or a namespace with mode, usable bytes, device, name and enabled",
    ),
    ("applied", "whether the plan was carried out"),
];

const EXAMPLES: &str = "\
Each of --socket, --interleaved, --not-interleaved, --map, --align, --sector-size and --name belongs to the wish
before it; before the first wish, to all that do not say otherwise. Sockets that no wish names stay as they are,
unless a wish leaves the socket open.

A plan for an emulated machine may divide its modules anew. One for a real machine begins with what its kernel
shows: regions, labels, and CXL devices that regions can be made of; it is never carried out, but printed.

Examples:
  lode platform plan --fsdax 1.25TiB --socket 0 --interleaved --rest memory-mode
  lode platform plan --fsdax max --socket 0 --devdax 200GiB --socket 1 --commands
  lode platform plan --rest memory-mode --apply
  lode platform plan --sysfs /sys --fsdax 64GiB --devdax max --commands";

/// Plan the steps that give a machine the requested namespaces
#[derive(Args, Debug)]
#[command(after_long_help = help())]
pub(crate) struct Plan {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    wishes: Wishes,
    /// Use of all capacity that no wish needs; without it, the plan changes as little as possible
    #[arg(long, value_name = "USE")]
    rest: Option<RestWord>,
    /// Carry the plan out as one change: after a kill, the machine is as before or as planned
    #[arg(long, conflicts_with = "commands")]
    apply: bool,
    /// Print the commands that carry the plan out on a real machine
    #[arg(long)]
    commands: bool,
    /// With --apply: carry the plan out even if something is lost
    #[arg(short, long, requires = "apply")]
    force: bool,
}

/// Use of the capacity that no wish needs.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RestWord {
    /// Volatile memory, with DRAM as its cache
    MemoryMode,
    /// Persistent memory without namespaces
    AppDirect,
    /// Capacity without a use
    Unconfigured,
}

fn help() -> String {
    format!("{EXAMPLES}\n\n{}", fields::help(FIELDS))
}

pub(crate) fn run(plan: &Plan) -> Result<Answer, Failure> {
    let request = PlanRequest {
        wishes: plan.wishes.wishes.clone(),
        sockets: plan.wishes.sockets.clone(),
        rest: plan.rest.map(|rest| match rest {
            RestWord::MemoryMode => Rest::MemoryMode,
            RestWord::AppDirect => Rest::AppDirect,
            RestWord::Unconfigured => Rest::Unconfigured,
        }),
    };
    if request.wishes.is_empty() && request.rest.is_none() {
        return Err(Failure::bad_usage(
            "nothing is wanted: name namespaces, as --fsdax 100GiB, or what the capacity is for, as --rest memory-mode",
        ));
    }
    if plan.place.is_real() {
        return real(plan, &request);
    }
    let mut directory = plan.place.open(if plan.apply { Purpose::Change } else { Purpose::Look })?;
    let made =
        plan::for_emulated(directory.platform(), &request, &mut Uuid::new_v4).map_err(failed("planning"))?;
    let mut text = if plan.commands { made.commands() } else { made.text() };
    if plan.apply {
        if let Some(loss) = made.losses.first()
            && !plan.force
        {
            let more = made.losses.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let why = format!("this would be lost: {loss}{more}; --force carries it out all the same");
            return Err(Failure::new("carrying out a plan", why));
        }
        if !made.steps.is_empty() {
            let change = directory.change(|platform| made.run(platform, &mut Uuid::new_v4));
            change.map_err(failed("carrying out a plan"))?;
        }
        text += "\nDone, as one change.\n";
    }
    Ok(answer(text, &made, plan.apply))
}

/// Plans for a real machine. The change itself is left to the machine's tools.
fn real(plan: &Plan, request: &PlanRequest) -> Result<Answer, Failure> {
    if request.rest.is_some() {
        return Err(Failure::bad_usage(
            "kernels don't tell how firmware divides modules, so --rest is for emulated machines: describe this one in a \
             file, `lode platform init FILE.toml --state DIR`, and plan there with --commands",
        ));
    }
    let sysfs = plan.place.sysfs()?;
    let made = plan::for_real(&sysfs.inventory(), &sysfs.cxl(), request).map_err(failed("planning"))?;
    if plan.apply {
        let commands: Vec<String> = made.commands().lines().map(str::to_owned).collect();
        return Ok(left_to_tools(&commands));
    }
    let text = if plan.commands { made.commands() } else { made.text() };
    Ok(answer(text, &made, false))
}

fn answer(text: String, made: &plan::Plan, applied: bool) -> Answer {
    let steps: Vec<Value> =
        made.steps.iter().map(|step| json!({ "what": step.describe(), "command": step.command() })).collect();
    let words = |texts: Vec<String>| Value::from(texts);
    Answer::text(text)
        .with("steps", steps)
        .with("lost", words(made.losses.iter().map(ToString::to_string).collect()))
        .with("notes", words(made.notes.iter().map(ToString::to_string).collect()))
        .with("table", made.table.rows.iter().map(row).collect::<Vec<_>>())
        .with("applied", applied)
}

fn row(row: &Row) -> Value {
    let mut value = json!({
        "socket": row.socket,
        "region": row.region,
        "modules": row.modules,
        "size": row.size,
        "what": row.holding.word(),
    });
    if let (Holding::Namespace { mode, usable, label, device, enabled, .. }, Some(fields)) =
        (&row.holding, value.as_object_mut())
    {
        fields.insert("mode".to_owned(), mode.word().into());
        fields.insert("usable".to_owned(), (*usable).into());
        fields.insert("device".to_owned(), format!("/dev/{device}").into());
        fields.insert("name".to_owned(), label.as_str().into());
        fields.insert("enabled".to_owned(), (*enabled).into());
    }
    value
}
