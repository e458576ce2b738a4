//! The command line. Help, manual pages and completions are made from these definitions.

use crate::bench::Bench;
use crate::crash::{self, Crash};
use crate::demo::{self, Demo};
use crate::durability::Durability;
use crate::fields;
use crate::ipmctl::{self, Ipmctl};
use crate::kv::KvVerb;
use crate::ndctl::{Daxctl, Ndctl};
use crate::platform::PlatformVerb;
use crate::pool::PoolVerb;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use lode_pmem::MASK_VARIABLE;
use std::path::PathBuf;

/// The exit codes, at the end of every manual page.
pub(crate) const EXIT_CODES: &str = "\
Exit status:
  0    done, and all of it and right
  1    failed, or the key is not there
  2    bad usage
  3    there is damage in the pool, or the repair lost something
  130  interrupted (SIGINT); what was begun is finished, nothing is half-made
  141  the reader of the output is gone (SIGPIPE)";

/// Returns the last sections of the program's own manual page.
fn help() -> String {
    let mask = "hides features of the CPU from lode, a list such as clwb,avx512f, to try other instructions";
    let state = "the directory of an emulated machine, for commands that take --state";
    format!("Environment:\n  {MASK_VARIABLE}  {mask}\n  LODE_STATE     {state}\n\n{EXIT_CODES}")
}

/// Keep keys and values in persistent memory or in ordinary files, with one fence per transaction.
#[derive(Debug, Parser)]
#[command(name = "lode", version, max_term_width = 100, after_long_help = help(), disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) noun: Noun,
}

/// Arguments of every command.
#[derive(Args, Debug)]
pub(crate) struct Common {
    /// Print JSON: one object, or one object per line; errors as {"error", "code"}
    #[arg(long, global = true, display_order = 100)]
    pub(crate) json: bool,
    /// Use this rung of the durability ladder instead of the detected one: the user then answers for durability.
    /// Ignored by commands that only read
    #[arg(long, global = true, value_name = "RUNG", default_value = "auto", display_order = 101)]
    pub(crate) durability: Durability,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Noun {
    /// Create, inspect, check, repair and grow pools
    #[command(subcommand)]
    Pool(PoolVerb),
    /// Put, get and scan keys and values in a pool with the layout `kv`
    #[command(subcommand)]
    Kv(KvVerb),
    /// Emulate machines with persistent memory: plan, rehearse and show configurations
    #[command(subcommand)]
    Platform(PlatformVerb),
    /// Show the modules of a machine, and configure those of an emulated one, with the commands of ipmctl
    #[command(after_long_help = ipmctl::help())]
    Ipmctl(Ipmctl),
    /// List regions and namespaces of a machine, and change those of an emulated one, with the commands of ndctl
    Ndctl(Ndctl),
    /// List character devices of a machine with the commands of daxctl
    Daxctl(Daxctl),
    /// Measure Lodestone and its peers side by side
    Bench(Bench),
    /// Cut the power of a simulated machine, and see what is left
    #[command(long_about = crash::ABOUT, after_long_help = fields::help(crash::FIELDS))]
    Crash(Crash),
    /// Load words in a process that is killed repeatedly, and show the cost of each operation on this machine
    #[command(after_long_help = fields::help(demo::FIELDS))]
    Demo(Demo),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Manual {
        /// The folder
        folder: PathBuf,
    },
}
