//! `lode crash`: power cuts, simulated, against the engines that ship.

use crate::answer::Answer;
use crate::durability::Durability;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use lode_index::explore::{Choice, ENGINES, Workload};
use lode_sim::{Machine, Report};
use serde_json::{Value, json};

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("engine", "what was explored"),
    ("seed", "where the runs came from"),
    ("images", "different states of the medium that were recovered from, twice each"),
    ("violations", "for each way to lose data: {machine, workload, story}; the exit code is then 3"),
    (
        "machines",
        "for each machine and workload: {machine, workload, images, nested_images, checks, crash_points, \
         exhausted_points, runs, seconds}",
    ),
];

pub(crate) const ABOUT: &str = "\
Cut the power of a simulated machine, and see what is left.

Runs the engine on a simulated medium, cuts the power at every drain and between, builds the states that may be left, \
recovers from each, twice, and compares with what was promised. All machines take part: x86 and Arm on the rungs line \
and byte, and sectors on the rung commit; --durability chooses one rung.";

#[derive(Args, Debug)]
pub(crate) struct Crash {
    /// What to explore
    engine: Engine,
    /// Different states of the medium to recover from, all machines together
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    images: u64,
    /// Where the workload's choices come from; the same seed explores the same
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Logical threads
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
    threads: u8,
    /// Only this machine, instead of all
    #[arg(long, value_name = "NAME", value_parser = named_machine)]
    machine: Option<Machine>,
    /// Only this workload of the engine, by its number from 1, instead of all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=WORKLOADS_MAX))]
    workload: Option<u8>,
    /// Report a loss as it was found, without a search for a shorter run that has it
    #[arg(long)]
    no_shrink: bool,
}

/// The most workloads that an engine has.
const WORKLOADS_MAX: i64 = 2;

/// The machine that reports give this name.
fn named_machine(name: &str) -> Result<Machine, String> {
    let names = Machine::ALL.map(|machine| machine.to_string());
    let found = Machine::ALL.into_iter().zip(&names).find(|(_, known)| *known == name);
    found.map(|(machine, _)| machine).ok_or_else(|| format!("the machines are {}", names.join(", ")))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Engine {
    /// The redo log alone
    Log,
    /// Transactions that allocate, replace and free objects
    Heap,
    /// Making and growing pools
    Pool,
    /// The radix tree
    Tree,
}

impl Engine {
    fn workloads(self) -> &'static [Workload] {
        match self {
            Engine::Log => ENGINES[0].workloads,
            Engine::Heap => ENGINES[1].workloads,
            Engine::Pool => ENGINES[2].workloads,
            Engine::Tree => ENGINES[3].workloads,
        }
    }
}

impl Crash {
    /// The workloads that were asked for.
    fn workloads(&self) -> Result<&'static [Workload], Failure> {
        let all = self.engine.workloads();
        let Some(number) = self.workload else { return Ok(all) };
        all.get(usize::from(number) - 1..usize::from(number)).ok_or_else(|| {
            let count = all.len();
            Failure::new(
                "exploring",
                format!("the engine has no workload {number}: --workload takes 1 to {count}"),
            )
        })
    }
}

/// Why no machine is left.
fn no_machine(crash: &Crash) -> String {
    match crash.machine {
        Some(machine) => {
            format!("--machine {machine} is not of the rung that --durability names: leave one out")
        }
        None => "the rung none keeps nothing, so there is nothing to explore".into(),
    }
}

pub(crate) fn run(crash: &Crash, durability: Durability) -> Result<Answer, Failure> {
    let machines: Vec<Machine> = Machine::ALL
        .into_iter()
        .filter(|machine| durability.rung().is_none_or(|rung| rung == machine.rung))
        .filter(|machine| crash.machine.is_none_or(|chosen| chosen == *machine))
        .collect();
    if machines.is_empty() {
        return Err(Failure::new("exploring", no_machine(crash)));
    }
    let workloads = crash.workloads()?;
    let progress = Progress::spinner("exploring");
    let share = crash.images.div_ceil((machines.len() * workloads.len()) as u64);
    let (mut text, mut rows, mut violations, mut images) = (String::new(), Vec::new(), Vec::new(), 0);
    for machine in machines {
        for workload in workloads {
            let choice = Choice {
                machine,
                threads: crash.threads,
                seed: crash.seed,
                images: share,
                shrink: !crash.no_shrink,
            };
            let (name, report) = (workload.name, workload.explore(&choice));
            images += report.images;
            text += &format!("{machine}, {name}: {report}\n");
            rows.push(row(machine, name, &report));
            if let Some(violation) = &report.violation {
                violations.push(json!({ "machine": machine.to_string(), "workload": name, "story": violation.to_string() }));
            }
        }
    }
    drop(progress);
    let code = if violations.is_empty() { 0 } else { crate::pool::check::DAMAGED };
    Ok(Answer::text(text)
        .with("engine", crash.engine.to_possible_value().map(|value| value.get_name().to_owned()))
        .with("seed", crash.seed)
        .with("images", images)
        .with("violations", violations)
        .with("machines", rows)
        .exit_with(code))
}

fn row(machine: Machine, workload: &str, report: &Report) -> Value {
    json!({
        "machine": machine.to_string(),
        "workload": workload,
        "images": report.images,
        "nested_images": report.nested_images,
        "checks": report.checks,
        "crash_points": report.crash_points,
        "exhausted_points": report.exhausted_points,
        "runs": report.runs,
        "seconds": report.seconds,
    })
}
