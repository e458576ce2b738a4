//! `attack`: attacks the library and the program, prints its findings and the arguments that repeat them.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use lode_attack::api::{self, Part, Sequence};
use lode_attack::files::{self, Library, PoolAccess, Program, Samples};
use lode_attack::kill::{self, Kills, Work};
use lode_attack::{FOUND_CODE, Finding, Progress, STALL_LIMIT};
use lode_heap::Durability;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Samples of one worker.
const SAMPLES: u64 = 200;
/// Samples of one worker if each sample runs the program many times.
const SAMPLES_PROGRAM: u64 = 20;

/// Attack pools at random, and print each broken promise.
#[derive(Parser)]
#[command(name = "attack")]
struct Arguments {
    #[command(subcommand)]
    command: AttackCommand,
}

#[derive(Subcommand)]
enum AttackCommand {
    /// Call the library at random, and compare with a model
    Api(Api),
    /// Damage files, and read, check and repair them
    Files(Files),
    /// Kill a process that runs transactions, and compare its pool with its acknowledgements
    Kill(Kill),
    /// Run transactions until killed
    #[command(hide = true)]
    Child(Child),
}

/// Arguments of all attacks.
#[derive(Args)]
struct CommonArguments {
    /// Minutes of new seeds
    #[arg(long, default_value_t = 1)]
    minutes: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds without a step after which a worker is taken to hang
    #[arg(long, default_value_t = STALL_LIMIT.as_secs())]
    stall: u64,
    /// Take the steps in this process, and note them in this file
    #[arg(long, hide = true)]
    progress: Option<PathBuf>,
}

#[derive(Args)]
struct Api {
    #[command(flatten)]
    run: CommonArguments,
    /// Part to call: heap, store, typed, threads, full [default: each in turn]
    #[arg(long)]
    part: Option<Part>,
    /// Steps of a sequence [default: 30 to 400, by its part]
    #[arg(long)]
    steps: Option<u64>,
    /// Only these steps of the sequence
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<u64>>,
}

#[derive(Args)]
struct Files {
    #[command(flatten)]
    run: CommonArguments,
    /// The program to attack, `lode`, instead of the library
    #[arg(long)]
    lode: Option<PathBuf>,
    /// Only this sample of the seed
    #[arg(long)]
    sample: Option<u64>,
    /// Samples of each seed
    #[arg(long)]
    samples: Option<u64>,
    /// Folder for copies of the damaged pools that gave a finding
    #[arg(long)]
    keep: Option<PathBuf>,
}

#[derive(Args)]
struct Kill {
    #[command(flatten)]
    run: CommonArguments,
    /// Work of the process: pairs, ledger, trees, later, migration [default: each in turn]
    #[arg(long)]
    work: Option<Work>,
    /// Durability of the pool: line, commit [default: each in turn]
    #[arg(long, value_parser = durability)]
    durability: Option<Durability>,
    /// Kills of each seed
    #[arg(long, default_value_t = 20)]
    kills: u64,
}

#[derive(Args)]
struct Child {
    #[arg(long)]
    work: Work,
    #[arg(long, value_parser = durability)]
    durability: Durability,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    pool: PathBuf,
    #[arg(long)]
    journal: PathBuf,
}

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "line" => Ok(Durability::Line),
        "commit" => Ok(Durability::Commit),
        _ => Err("choose line or commit".to_owned()),
    }
}

fn main() -> Result<ExitCode> {
    let found = match Arguments::parse().command {
        AttackCommand::Api(api) => attack_api(&api)?,
        AttackCommand::Files(files) => attack_files(&files)?,
        AttackCommand::Kill(kill) => attack_kill(&kill)?,
        AttackCommand::Child(Child { work, durability, seed, pool, journal }) => {
            kill::child(&Kills { work, durability, seed, count: 0 }, &pool, &journal)?;
            0
        }
    };
    Ok(if found == 0 { ExitCode::SUCCESS } else { ExitCode::from(FOUND_CODE) })
}

/// Runs `attack` for one seed after another until the minutes are over. Returns the number of findings.
fn for_minutes(
    run: &CommonArguments,
    is_single: bool,
    mut attack: impl FnMut(u64) -> Result<usize>,
) -> Result<usize> {
    let (begin, limit) = (Instant::now(), Duration::from_secs(run.minutes * 60));
    let (mut found, mut seed) = (0, run.seed);
    loop {
        found += attack(seed)?;
        seed += 1;
        if is_single || begin.elapsed() >= limit {
            println!("{} seeds, {found} findings", seed - run.seed);
            return Ok(found);
        }
    }
}

/// Runs an attack in a worker, prints its output, and returns its findings.
fn supervise(arguments: &[String], limit: Duration) -> Result<Vec<Finding>> {
    let program = std::env::current_exe().context("the attacker's own program")?;
    let result = lode_attack::run(&program, arguments, limit)?;
    print!("{}", result.out);
    Ok(result.findings)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn attack_api(api: &Api) -> Result<usize> {
    let sequence = |part: Part, seed: u64| {
        let all = || (0..api.steps.unwrap_or(part.steps())).collect();
        Sequence { part, seed, steps: api.only.clone().unwrap_or_else(all) }
    };
    if let Some(progress) = &api.run.progress {
        lode_attack::install_panic_hook();
        let part = api.part.context("a worker attacks one part")?;
        let done = sequence(part, api.run.seed).run(&Progress::over(progress)?);
        return Ok(done.map_or_else(
            |finding| {
                finding.print();
                1
            },
            |()| 0,
        ));
    }
    let limit = Duration::from_secs(api.run.stall);
    let parts = api.part.map_or(api::PARTS.to_vec(), |part| vec![part]);
    for_minutes(&api.run, api.only.is_some(), |seed| {
        let mut found = 0;
        for part in &parts {
            let Some((finding, repeat)) = api::attack(&sequence(*part, seed), limit, &mut supervise)? else {
                continue;
            };
            println!("{finding}\n  repeat: attack {repeat}");
            found += 1;
        }
        Ok(found)
    })
}

fn path(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("{} is not UTF-8", path.display()))
}

fn attack_files(files: &Files) -> Result<usize> {
    let Some(progress) = &files.run.progress else {
        let mut rest = Vec::new();
        for (name, value) in [("--lode", &files.lode), ("--keep", &files.keep)] {
            if let Some(value) = value {
                rest.extend([name.to_owned(), path(value)?]);
            }
        }
        for (name, value) in [("--sample", files.sample), ("--samples", files.samples)] {
            rest.extend(value.iter().flat_map(|value| [name.to_owned(), value.to_string()]));
        }
        return for_minutes(&files.run, files.sample.is_some(), |seed| {
            let arguments = [words(&["files", "--seed", &seed.to_string()]), rest.clone()].concat();
            let findings = supervise(&arguments, Duration::from_secs(files.run.stall))?;
            findings.iter().for_each(|finding| println!("{finding}"));
            Ok(findings.len())
        });
    };
    lode_attack::install_panic_hook();
    let count = files.samples.unwrap_or(if files.lode.is_some() { SAMPLES_PROGRAM } else { SAMPLES });
    ensure!(count > 0, "--samples 0 attacks nothing; ask for more");
    let numbers = files.sample.map_or(0..count, |sample| sample..sample + 1);
    let samples = Samples { seed: files.run.seed, numbers, keep: files.keep.clone() };
    let access: Box<dyn PoolAccess> = match &files.lode {
        Some(lode) => Box::new(Program::new(lode)?),
        None => Box::new(Library),
    };
    let progress = Progress::over(progress)?;
    let mut found = 0;
    let report = &mut |finding: Finding| {
        found += 1;
        finding.print();
    };
    let tally = files::attack(&samples, &*access, &mut progress.thread(0), report)?;
    println!("seed {}: {tally:?}", files.run.seed);
    Ok(found)
}

fn attack_kill(kill: &Kill) -> Result<usize> {
    let program = std::env::current_exe().context("the attacker's own program")?;
    let works = kill.work.map_or(Work::ALL.to_vec(), |work| vec![work]);
    let durabilities =
        kill.durability.map_or(vec![Durability::Line, Durability::Commit], |durability| vec![durability]);
    for_minutes(&kill.run, false, |seed| {
        let mut found = 0;
        for work in &works {
            for durability in &durabilities {
                let kills = Kills { work: *work, durability: *durability, seed, count: kill.kills };
                let report = &mut |finding: Finding| {
                    found += 1;
                    println!("{finding} ({work} on {durability}, seed {seed})");
                };
                let acknowledged = kill::attack(&kills, &program, report)?;
                println!(
                    "seed {seed}: {work} on {durability}: {} kills, {acknowledged} acknowledged",
                    kill.kills
                );
            }
        }
        Ok(found)
    })
}
