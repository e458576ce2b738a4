//! `cargo xtask`: the checks that contributors and CI run on the sources.
//!
//! ```text
//!   ci       the stages of `make test` -----------+-- cargo builds, in a few flavors; its output is passed on
//!   soak     the same tests, larger, for a while -+-- runner: each test in a process of its own, on all cores
//!   capi     the shared objects and archives of the C ABI, in target/capi/lib
//!   deb      the Debian package of these libraries, in target/deb
//!   cost     golden files of drains, lines, bytes
//!   figures  the tables of figures in README.md, made of a run of the bench
//!   man      the manual pages in docs/man/, made by `lode` itself
//!   tool-options  the rows of docs/tool-options.md, made of manual pages of Debian
//!   mutants  lines of the code replaced one at a time, each to be noticed by a test
//!   tidy     the rules of CONTRIBUTING.md that no other tool checks: one file for each rule
//! ```
//!
//! It does: run cargo, read the workspace, report. It does not: install anything (setup/install.sh does).
#![forbid(unsafe_code)]

mod capi;
mod cargo;
mod ci;
mod cost;
mod failure;
mod figures;
mod flavor;
mod log;
mod man;
mod mutants;
mod runner;
mod soak;
mod stages;
mod tally;
mod tidy;
mod tool_options;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use log::Log;
use mutants::Selection;
use std::path::PathBuf;
use std::process::ExitCode;
use workspace::Workspace;

/// Run the checks of contributors and CI on the sources of Lodestone.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the stages of `make test`, all or those named.
    Ci {
        /// Stages to run, in the order of the list; all when none is named.
        stages: Vec<String>,
        /// Print the stages and what they do.
        #[arg(long)]
        list: bool,
        /// Fail if a stage takes longer than its budget, which is for two slow cores.
        #[arg(long)]
        budget: bool,
    },
    /// Run the same tests with larger budgets and new seeds, again and again.
    Soak {
        /// No round begins after this many minutes; one that has begun is finished.
        #[arg(long, default_value_t = 60)]
        minutes: u64,
    },
    /// Check the rules that no other tool checks.
    Tidy,
    /// Replace lines of the sources, one at a time, to see if a test fails: those of tools/xtask/mutants.toml.
    Mutants {
        /// Mutants to run; a tenth of the list when none is named.
        names: Vec<String>,
        /// Run another tenth of the list, from 0 to 9.
        #[arg(long, value_name = "K", default_value_t = 0, conflicts_with = "names")]
        tenth: usize,
        /// Run the whole list.
        #[arg(long, conflicts_with_all = ["names", "tenth"])]
        all: bool,
        /// Search explorations that kill them, and print the lines for the list.
        #[arg(long)]
        search: bool,
    },
    /// Make the manual pages in docs/man/ anew.
    Man,
    /// Make the tables of figures in README.md anew, of docs/figures.json.
    Figures {
        /// Take over this output of `lode-bench --json` first.
        run: Option<PathBuf>,
    },
    /// Compare docs/tool-options.md with the manual pages of ndctl, daxctl, cxl and ipmctl of Debian 12.
    ToolOptions {
        /// Folder of the manual pages.
        #[arg(default_value = "/usr/share/man/man1")]
        pages: PathBuf,
        /// Write the rows of the pages, with the answers that the table has.
        #[arg(long)]
        accept: bool,
    },
    /// Build the libraries of the C ABI into target/capi/lib.
    Capi,
    /// Build the Debian package of these libraries into target/deb.
    Deb,
    /// Compare the golden cost files with what the operations cost.
    Cost {
        /// Replace the golden files with the measured costs.
        #[arg(long)]
        accept: bool,
    },
}

fn main() -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let good = match Arguments::parse().task {
        Task::Ci { list: true, .. } => ci::print_list(),
        Task::Ci { stages, budget, .. } => ci::run(&workspace, &stages, budget)?,
        Task::Soak { minutes } => soak::run(&workspace, minutes)?,
        Task::Tidy => tidy::run(&workspace, Log::default())?,
        Task::Mutants { names, tenth, all, search } => {
            let selection = match (all, names.is_empty()) {
                (true, _) => Selection::All,
                (false, true) => Selection::Tenth(tenth),
                (false, false) => Selection::Named(names),
            };
            if search {
                mutants::search(&workspace, &selection)?
            } else {
                mutants::run(&workspace, &selection, Log::default())?.failed == 0
            }
        }
        Task::Man => man::write(&workspace)?,
        Task::Figures { run } => {
            figures::write(&workspace, run.as_deref())?;
            true
        }
        Task::ToolOptions { pages, accept } => tool_options::run(&workspace, &pages, accept)?,
        Task::Capi => capi::build(&workspace)?,
        Task::Deb => capi::package(&workspace)?,
        Task::Cost { accept } => cost::run(&workspace, accept)?,
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
