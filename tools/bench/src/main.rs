//! Lodestone and its peers, in turn, on the same workloads.
//!
//! ```text
//!   main: for each group a process of its own --- workloads: laps in turn, medians
//!     |                                             |  trait Transactions, Tree, Store
//!   report: terminal, JSON, HTML                  ours | peers (C driver, crates)
//! ```
//!
//! It does: run all engines of a workload in turn, in at least 15 rounds, check that they come to the same result, and
//! report medians and ratios. It does not: measure persistent memory where there is none. Workloads whose name begins
//! with `file-` run on an ordinary file; all others run on tmpfs, with cache-line flushes forced on both engines.

mod clock;
mod duration;
mod engine;
mod figure;
mod group;
mod keys;
mod lacks;
mod machine;
mod ours;
mod pairs;
mod peers;
mod plan;
mod private_memory;
mod program;
mod report;
mod rounds;
mod run;
mod targets;
mod traps;
mod unit;
mod workloads;

use crate::engine::Engine;
use crate::plan::{Selection, Size};
use crate::run::Laps;
use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Lodestone and its peers, in turn, on the same workloads
#[derive(Parser)]
#[command(name = "lode-bench")]
struct Arguments {
    /// Tables (foundation, volumes, capi), groups and rows to run; without a name, all but the rows that take longest
    names: Vec<String>,
    /// Run every row once, all of them in about a minute, to see that they run; measures nothing
    #[arg(long)]
    quick: bool,
    /// Laps of each engine
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(15..))]
    rounds: u16,
    /// Touch the pools of trees before they are timed
    #[arg(long)]
    touched: bool,
    /// Seed of the random order of keys and places
    #[arg(long, default_value_t = 20_261_120)]
    seed: u64,
    /// Seconds after which a transaction of ours is given up, and its row prints N/A; a load may take three times as
    /// long
    #[arg(long, default_value_t = 20)]
    give_up: u64,
    /// Size of the rows store-*; 1 is that of redb's own bench [default: 0.1, and 0.001 with --quick]
    #[arg(long)]
    scale: Option<f64>,
    /// Print one JSON object in place of the table
    #[arg(long)]
    json: bool,
    /// Folder for the outputs, and for the files of the workloads on an ordinary file
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Measure nothing; report from the laps that an earlier run left in the folder for outputs
    #[arg(long, conflicts_with_all = ["names", "quick"])]
    report_only: bool,
    /// Run the one group to which the names belong in this process, with its files in this folder, and print what it found
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
    /// Commit pairs one by one to the store of this engine, say so, and wait to be killed
    #[arg(long, hide = true, requires = "store")]
    commit: Option<Engine>,
    /// Pairs to commit
    #[arg(long, hide = true, default_value_t = 0)]
    commits: usize,
    /// The store's path
    #[arg(long, hide = true)]
    store: Option<PathBuf>,
    /// Get keys from the store of this engine when the input ends, and print the time
    #[arg(long, hide = true, requires_all = ["store", "keys"])]
    get: Option<Engine>,
    /// The keys' file
    #[arg(long, hide = true)]
    keys: Option<PathBuf>,
    /// Write blocks to the pool of atomic blocks at this path, say so, and wait to be killed
    #[arg(long, hide = true)]
    write: Option<PathBuf>,
    /// Blocks to write
    #[arg(long, hide = true, default_value_t = 0)]
    writes: u64,
    /// Load keys into a new pool at this path, say so, and wait to be killed
    #[arg(long, hide = true, requires_all = ["load_keys", "load_room"])]
    load: Option<PathBuf>,
    /// Keys to load
    #[arg(long, hide = true, default_value_t = 0)]
    load_keys: u64,
    /// Keys that the pool has room for
    #[arg(long, hide = true, default_value_t = 0)]
    load_room: usize,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let size = if arguments.quick {
        Size::quick()
    } else {
        Size::full(usize::from(arguments.rounds), arguments.touched)
    };
    let scale = arguments.scale.unwrap_or(size.scale);
    ensure!(scale > 0.0 && scale <= 1.0, "--scale is more than 0 and at most 1");
    let size = Size { overdue: Duration::from_secs(arguments.give_up), scale, ..size };
    if let Some(path) = &arguments.load {
        ours::load_and_wait(path, arguments.load_keys, arguments.load_room)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &arguments.write {
        workloads::write_and_wait(path, arguments.writes)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(engine), Some(path)) = (arguments.commit, &arguments.store) {
        workloads::commit_and_wait(engine, path, arguments.commits, arguments.seed)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(engine), Some(path), Some(keys)) = (arguments.get, &arguments.store, &arguments.keys) {
        workloads::get_and_print(engine, path, keys)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(folder) = &arguments.inside {
        let selections = Selection::of_names(&arguments.names)?;
        let [selection] = selections.as_slice() else { bail!("--inside needs one group") };
        let findings = workloads::run(selection, &size, arguments.seed, folder)?;
        serde_json::to_writer(io::stdout().lock(), &findings)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Quick figures never take the place of real ones.
    let out = if arguments.quick { arguments.out.join("quick") } else { arguments.out.clone() };
    fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let laps = if arguments.report_only {
        Laps::read(&out)?
    } else {
        let selections = Selection::of_names(&arguments.names)?;
        let laps = run::run(&selections, arguments.quick, &size, arguments.seed, &out)?;
        laps.write(&out)?;
        laps
    };
    report::write(&laps, &out, arguments.json)?;
    Ok(if laps.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
