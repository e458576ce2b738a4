//! The command line: the source of help, manual pages and completions.

use crate::bench::Bench;
use crate::completions::{self, Completions};
use crate::crash::{self, Crash};
use crate::cxl::Cxl;
use crate::daxctl::Daxctl;
use crate::demo::{self, Demo};
use crate::exec::{self, Exec};
use crate::failure::EXIT_CODES;
use crate::fields;
use crate::global_options::GlobalOptions;
use crate::ipmctl::{self, Ipmctl};
use crate::kv::KvCommand;
use crate::log::LogCommand;
use crate::ndctl::Ndctl;
use crate::platform::PlatformCommand;
use crate::pool::PoolCommand;
use crate::volume::VolumeCommand;
use clap::{Parser, Subcommand};
use lode_pmem::MASK_VARIABLE;
use std::path::PathBuf;

/// Returns the last sections of the program's own manual page.
fn help() -> String {
    let mask = "hides features of the CPU from lode, a list such as clwb,avx512f, to try other instructions";
    let state = "the directory of an emulated machine, for commands that take --state";
    format!("Environment:\n  {MASK_VARIABLE}  {mask}\n  LODE_STATE     {state}\n\n{EXIT_CODES}")
}

/// Keep keys and values in persistent memory or in ordinary files, with one fence per transaction.
#[derive(Debug, Parser)]
#[command(name = "lode", version, max_term_width = 100, after_long_help = help())]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) options: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create, inspect, check, repair and grow pools
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Put, get and scan keys and values in a pool with the layout `kv`; read the trees of one with the layout `store`
    #[command(subcommand)]
    Kv(KvCommand),
    /// Create, check and repair volumes of blocks, and copy their content
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Create and check logs, append records to them, and print these
    #[command(subcommand)]
    Log(LogCommand),
    /// Emulate machines with persistent memory: plan, rehearse and show configurations
    #[command(subcommand)]
    Platform(PlatformCommand),
    /// Show the modules of a machine, and configure those of an emulated one, with the commands of ipmctl
    #[command(after_long_help = ipmctl::help())]
    Ipmctl(Ipmctl),
    /// List regions and namespaces of a machine, and change those of an emulated one, with the commands of ndctl
    Ndctl(Ndctl),
    /// List character devices of a machine, and change those of an emulated one, with the commands of daxctl
    Daxctl(Daxctl),
    /// List the CXL memory of an emulated machine, and make regions of it, with the commands of cxl
    Cxl(Cxl),
    /// Run a program that was written for PMDK on Lodestone's libraries
    #[command(long_about = exec::ABOUT, after_long_help = exec::help())]
    Exec(Exec),
    /// Measure Lodestone and its peers side by side
    Bench(Bench),
    /// Cut the power of a simulated machine, and check the recovered content
    #[command(long_about = crash::ABOUT, after_long_help = fields::help(crash::FIELDS))]
    Crash(Crash),
    /// Load words in a process that is killed repeatedly, and show the cost of each operation on this machine
    #[command(after_long_help = fields::help(demo::FIELDS))]
    Demo(Demo),
    /// Print completions for a shell
    #[command(after_long_help = completions::help())]
    Completions(Completions),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Manual {
        /// The folder
        folder: PathBuf,
    },
}
