//! `lode platform plan`.

use super::real::tool_commands_output;
use super::requests::Requests;
use super::show::drawing;
use super::{MachineLocation, failed};
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use clap::{Args, ValueEnum};
use lode_platform::discovery::Shown;
use lode_platform::picture::Scene;
use lode_platform::plan::{self, NamespaceRequest, PlanRequest, Rest, Row, Table, Usage};
use lode_platform::{Platform, Purpose};
use serde_json::{Value, json};
use uuid::Uuid;

const FIELDS: &[(&str, &str)] = &[
    ("steps", "the steps, in order: of each what, a description, and command, for a real machine"),
    ("lost", "the losses, in words"),
    ("notes", "further notes, in words"),
    (
        "table",
        "afterwards: of each use of capacity its socket, region or null, how many modules share it, size in bytes, and \
         what: memory, free, reserved, not configured, or a namespace with mode, usable bytes, device, name and enabled",
    ),
    ("applied", "whether the plan was carried out"),
];

const EXAMPLES: &str = "\
Each of --socket, --interleaved, --not-interleaved, --map, --align, --sector-size and --name belongs to the
request before it. Before the first request, it is the default of all requests. Sockets that no request names stay
as they are, unless a request leaves the socket open.

Sizes are rounded up to what the modules of a region can share, and the plan says to which. A request with --name is
fulfilled if a namespace with the name is as requested: a plan that was carried out has nothing to do the next time. If
that namespace is different, the request is impossible. --add makes another one. Requests without --name always make
namespaces.

A plan that changes something also draws the machine before and after it.

A plan for an emulated machine may provision its modules anew. One for a real machine begins with what its kernel
shows: regions, labels, and CXL devices that regions can be made of; it is never carried out, but printed.

Examples:
  lode platform plan --fsdax 1.25TiB --socket 0 --interleaved --rest memory-mode
  lode platform plan --fsdax max --socket 0 --devdax 200GiB --socket 1 --commands
  lode platform plan --usable 100GiB --name data --apply
  lode platform plan --rest memory-mode --apply
  lode platform plan --sysfs /sys --fsdax 64GiB --devdax max --commands";

/// Plan the steps that give a machine the requested namespaces
#[derive(Args, Debug)]
#[command(after_long_help = help())]
pub(crate) struct Plan {
    #[command(flatten)]
    location: MachineLocation,
    #[command(flatten)]
    requests: Requests,
    /// Refuse a size that no region can have. Without it, sizes are rounded up
    #[arg(long)]
    exact: bool,
    /// Make namespaces even if there are some with their names
    #[arg(long)]
    add: bool,
    /// Use of all capacity that no request needs; without it, the plan changes as little as possible
    #[arg(long, value_name = "USE")]
    rest: Option<RestOption>,
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

/// The value of `--rest`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RestOption {
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

pub(crate) fn run(plan: &Plan) -> Result<Output, Failure> {
    let request = PlanRequest {
        namespaces: plan
            .requests
            .namespaces
            .iter()
            .map(|one| NamespaceRequest { exact: plan.exact, add: plan.add, ..one.clone() })
            .collect(),
        sockets: plan.requests.sockets.clone(),
        rest: plan.rest.map(|rest| match rest {
            RestOption::MemoryMode => Rest::MemoryMode,
            RestOption::AppDirect => Rest::AppDirect,
            RestOption::Unconfigured => Rest::Unconfigured,
        }),
    };
    if request.namespaces.is_empty() && request.rest.is_none() {
        return Err(Failure::usage_error(
            "no namespace is requested: name namespaces, as --fsdax 100GiB, or the use of the capacity, as --rest memory-mode",
        ));
    }
    if plan.location.is_real() {
        return plan_for_real(plan, &request);
    }
    let mut directory = plan.location.open(if plan.apply { Purpose::Change } else { Purpose::ReadOnly })?;
    let made =
        plan::for_emulated(directory.platform(), &request, &mut Uuid::new_v4).map_err(failed("planning"))?;
    let mut text = if plan.commands { made.commands() } else { made.text() };
    if !plan.commands && !made.steps.is_empty() {
        let mut after = directory.platform().clone();
        made.run(&mut after, &mut Uuid::new_v4).map_err(failed("planning"))?;
        text += &drawings(&Scene::of(directory.platform()), &Scene::of(&after));
    }
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
            text += "\nDone, as one change.\n";
        }
    }
    Ok(plan_output(text, &made, plan.apply))
}

/// Plans for a real machine. The change itself is left to the machine's tools.
fn plan_for_real(plan: &Plan, request: &PlanRequest) -> Result<Output, Failure> {
    if request.rest.is_some() {
        return Err(Failure::usage_error(
            "kernels don't show how firmware provisions modules, so --rest is for emulated machines: describe this one in a \
             file, `lode platform init FILE.toml --state DIR`, and plan there with --commands",
        ));
    }
    let shown = Shown::read(&plan.location.sysfs()?);
    let made = plan::for_real(&shown.inventory, &shown.cxl, request).map_err(failed("planning"))?;
    if plan.apply && !made.steps.is_empty() {
        let commands: Vec<String> = made.commands().lines().map(str::to_owned).collect();
        return Ok(tool_commands_output(&commands));
    }
    let mut text = if plan.commands { made.commands() } else { made.text() };
    if !plan.commands && !made.steps.is_empty() {
        text += &drawings(&Scene::of_shown(&shown), &Scene::of_shown(&made.after(&shown)));
    }
    Ok(plan_output(text, &made, false))
}

/// Draws the machine before and after the plan.
fn drawings(before: &Scene, after: &Scene) -> String {
    format!("\nBefore:\n{}\nAfter:\n{}", drawing(before), drawing(after))
}

fn plan_output(text: String, made: &plan::Plan, applied: bool) -> Output {
    let steps: Vec<Value> =
        made.steps.iter().map(|step| json!({ "what": step.describe(), "command": step.command() })).collect();
    let words = |texts: Vec<String>| Value::from(texts);
    Output::text(text)
        .with("steps", steps)
        .with("lost", words(made.losses.iter().map(ToString::to_string).collect()))
        .with("notes", words(made.notes.iter().map(ToString::to_string).collect()))
        .with("table", made.table.rows.iter().map(row).collect::<Vec<_>>())
        .with("applied", applied)
}

/// Returns the use of a machine's capacity as JSON.
pub(super) fn table_json(platform: &Platform) -> Vec<Value> {
    Table::of(platform).rows.iter().map(row).collect()
}

fn row(row: &Row) -> Value {
    let mut value = json!({
        "socket": row.socket,
        "region": row.region,
        "modules": row.modules,
        "size": row.size,
        "what": row.usage.as_str(),
    });
    if let (Usage::Namespace { mode, usable, label, device, enabled, .. }, Some(fields)) =
        (&row.usage, value.as_object_mut())
    {
        fields.insert("mode".to_owned(), mode.as_str().into());
        fields.insert("usable".to_owned(), (*usable).into());
        fields.insert("device".to_owned(), format!("/dev/{device}").into());
        fields.insert("name".to_owned(), label.as_str().into());
        fields.insert("enabled".to_owned(), (*enabled).into());
    }
    value
}
