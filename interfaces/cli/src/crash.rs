//! `lode crash`: simulated power cuts of the engines that ship.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use lode_heap::explore::{self as heap, GrowingSubject, HeapSubject, LogSubject};
use lode_index::explore::{self as index, ShrinkingSubject, TreeSubject, TreesSubject};
use lode_pool::explore::PoolSubject;
use lode_sim::{Machine, Report, Setup, Violation, explore};
use serde_json::{Value, json};

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("engine", "the explored engine"),
    ("seed", "seed of the runs"),
    ("images", "different states of the medium that were recovered from, twice each"),
    (
        "violations",
        "for each way to lose data: {machine, workload, failure, replay, history}, the history in lines; the exit code is then 3",
    ),
    (
        "machines",
        "for each machine and workload: {machine, workload, images, nested_images, checks, crash_points, \
         exhausted_points, runs, seconds}",
    ),
];

pub(crate) const ABOUT: &str = "\
Cut the power of a simulated machine, and check the recovered content.

Runs the engine on a simulated medium, cuts the power at every drain and between, builds the states that may be left, \
recovers from each, twice, and compares the content with the acknowledged operations. With the engine isolation, some \
order of the transactions must explain all that they read, and the content. All machines take part: x86 and \
Arm at durability line and byte, and sectors at durability commit; --durability chooses one.";

#[derive(Args, Debug)]
pub(crate) struct Crash {
    /// Engine to explore
    engine: Engine,
    /// Number of different states of the medium to recover from, over all machines
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    images: u64,
    /// Seed of the workload's choices; the same seed explores the same runs
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Number of logical threads
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
    threads: u8,
    /// Explore only this machine
    #[arg(long, value_name = "NAME", value_parser = named_machine)]
    machine: Option<Machine>,
    /// Explore only this workload of the engine, by its number from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=WORKLOADS_MAX))]
    workload: Option<u8>,
    /// Report a loss as found, without searching for a shorter run with the same loss
    #[arg(long)]
    no_shrink: bool,
}

/// Largest number of workloads of an engine.
const WORKLOADS_MAX: i64 = 3;

/// Returns the machine that reports call `name`.
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
    /// Creation and growth of pools
    Pool,
    /// The radix tree, and trees by their names
    Tree,
    /// Transactions that read what others change: words, and keys and ranges of a tree
    Isolation,
}

/// A workload that an engine runs while the power is cut.
struct Workload {
    name: &'static str,
    /// Operations of one run, over all threads.
    operations: u64,
    explore: fn(&Setup) -> Report,
}

const LOG: [Workload; 2] = [
    Workload {
        name: "log of 16 KiB",
        operations: 150,
        explore: |setup| explore(&LogSubject { size: 0x10000, log_len: 0x4000 }, setup),
    },
    Workload {
        name: "log of 32 KiB",
        operations: 150,
        explore: |setup| explore(&LogSubject { size: 0x10000, log_len: 0x8000 }, setup),
    },
];
const HEAP: [Workload; 3] = [
    Workload {
        name: "heap with small objects",
        operations: 120,
        explore: |setup| explore(&HeapSubject { size: 0x30000, sizes: 5, later: false }, setup),
    },
    Workload {
        name: "heap with objects of all sizes",
        operations: 120,
        explore: |setup| explore(&HeapSubject { size: 0x60000, sizes: 6, later: false }, setup),
    },
    Workload {
        name: "heap whose pool grows and whose log moves",
        operations: 120,
        explore: |setup| {
            let heap = HeapSubject { size: 0x60000, sizes: 5, later: false };
            explore(&GrowingSubject { heap, size_max: 0x90000 }, setup)
        },
    },
];
const POOL: [Workload; 2] = [
    Workload {
        name: "pools being made",
        operations: 12,
        explore: |setup| explore(&PoolSubject::Create, setup),
    },
    Workload { name: "pool that grows", operations: 12, explore: |setup| explore(&PoolSubject::Grow, setup) },
];
const TREE: [Workload; 4] = [
    Workload {
        name: "tree",
        operations: 90,
        explore: |setup| explore(&TreeSubject { size: 0x80000, in_batches: false }, setup),
    },
    Workload {
        name: "trees that are made and dropped",
        operations: 60,
        explore: |setup| explore(&TreesSubject { size: 0x80000, in_typed_pool: false }, setup),
    },
    Workload {
        name: "pool that shrinks",
        operations: 12,
        explore: |setup| explore(&ShrinkingSubject { size: 0x180000 }, setup),
    },
    Workload {
        name: "trees beside typed data",
        operations: 60,
        explore: |setup| explore(&TreesSubject { size: 0x80000, in_typed_pool: true }, setup),
    },
];

const ISOLATION: [Workload; 2] = [
    Workload {
        name: "transactions over words",
        operations: 120,
        explore: |setup| explore(&heap::IsolationSubject { size: 0x30000 }, setup),
    },
    Workload {
        name: "transactions over keys",
        operations: 60,
        explore: |setup| explore(&index::IsolationSubject { size: 0x80000 }, setup),
    },
];

impl Engine {
    fn workloads(self) -> &'static [Workload] {
        match self {
            Engine::Log => &LOG,
            Engine::Heap => &HEAP,
            Engine::Pool => &POOL,
            Engine::Tree => &TREE,
            Engine::Isolation => &ISOLATION,
        }
    }
}

impl Crash {
    /// Returns the workload that `--workload` names, or all of the engine's workloads.
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

/// Returns the reason why the options leave no machine.
fn no_machine(crash: &Crash) -> String {
    match crash.machine {
        Some(machine) => {
            format!("--machine {machine} does not have the durability that --durability names: leave one out")
        }
        None => "at durability none a power cut loses all stores, so there is nothing to explore".into(),
    }
}

pub(crate) fn run(crash: &Crash, durability: DurabilityOption) -> Result<Output, Failure> {
    let machines: Vec<Machine> = Machine::ALL
        .into_iter()
        .filter(|machine| durability.forced().is_none_or(|durability| durability == machine.durability))
        .filter(|machine| crash.machine.is_none_or(|chosen| chosen == *machine))
        .collect();
    if machines.is_empty() {
        return Err(Failure::new("exploring", no_machine(crash)));
    }
    let workloads = crash.workloads()?;
    let progress = Progress::of_items("images", crash.images);
    let share = crash.images.div_ceil((machines.len() * workloads.len()) as u64);
    let (mut text, mut rows, mut violations) = (String::new(), Vec::new(), Vec::new());
    let mut total = Report::default();
    for machine in machines {
        for Workload { name, operations, explore } in workloads {
            let setup = Setup {
                machine,
                threads: usize::from(crash.threads),
                operations: operations / u64::from(crash.threads),
                seed: crash.seed,
                images: share,
                failing_drains: machine.durability == lode_layout::Durability::Commit,
                shrink: !crash.no_shrink,
                ..Setup::default()
            };
            let report = explore(&setup);
            progress.add(report.images);
            total.images += report.images;
            total.checks += report.checks;
            total.crash_points += report.crash_points;
            total.seconds += report.seconds;
            text += &format!("{machine}, {name}: {report}\n");
            rows.push(row(machine, name, &report));
            if let Some(violation) = &report.violation {
                violations.push(violation_json(machine, name, violation));
            }
        }
    }
    drop(progress);
    text += &total_line(&total, violations.len());
    let code = if violations.is_empty() { 0 } else { crate::failure::DAMAGED };
    Ok(Output::text(text)
        .with("engine", crash.engine.to_possible_value().map(|value| value.get_name().to_owned()))
        .with("seed", crash.seed)
        .with("images", total.images)
        .with("violations", violations)
        .with("machines", rows)
        .with_exit_code(code))
}

/// Formats the sum of all explorations.
fn total_line(total: &Report, violations: usize) -> String {
    let Report { images, checks, crash_points, seconds, .. } = total;
    let found = match violations {
        0 => "no violation".to_owned(),
        1 => "1 violation".to_owned(),
        count => format!("{count} violations"),
    };
    format!(
        "total: {images} images, each recovered from twice ({checks} checks), at {crash_points} crash points, in \
         {seconds:.1} s: {found}\n"
    )
}

fn violation_json(machine: Machine, workload: &str, violation: &Violation) -> Value {
    json!({
        "machine": machine.to_string(),
        "workload": workload,
        "failure": violation.failure.to_string(),
        "replay": violation.replay.to_string(),
        "history": violation.history.lines().collect::<Vec<_>>(),
    })
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
