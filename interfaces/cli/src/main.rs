//! `lode`: pools, and keys and values in them, from the command line.
//!
//! ```text
//!   arguments   commands and flags: help, manual pages and completions come from it
//!   pool kv volume log platform ipmctl ndctl crash bench demo
//!               one module for each command: calls the libraries, returns an Output
//!   output      the output: text, or one JSON object               failure    errors and exit codes
//!   hint        the next command after an error
//!   progress    bars and spinners on the terminal                   interrupt  signals
//!   input       a file or pipe to read, until a signal
//! ```
//!
//! It does: read arguments and print. It does not: know how anything is stored.
#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod crash;
mod demo;
mod durability;
mod failure;
mod fields;
mod global_options;
mod hint;
mod input;
mod interrupt;
mod ipmctl;
mod kv;
mod log;
mod manual;
mod ndctl;
mod output;
mod platform;
mod pool;
mod progress;
mod size;
mod volume;

use arguments::{Arguments, Command};
use clap::Parser;
use failure::Failure;
use output::Output;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    interrupt::ignore_sigxfsz();
    let json_requested = std::env::args_os().any(|argument| argument == OsStr::new("--json"));
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() && json_requested => return Failure::from_clap(&error).report(true),
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => {
            return print_help_or_version(&help).unwrap_or_else(|failure| failure.report(json_requested));
        }
    };
    let json = arguments.options.json;
    match run(arguments).and_then(|output| output.print(json)) {
        Ok(code) => code,
        Err(failure) => failure.report(json),
    }
}

/// Prints help or the version, which clap returns as errors.
fn print_help_or_version(help: &clap::Error) -> Result<ExitCode, Failure> {
    help.print().and_then(|()| io::stdout().flush()).map_err(Failure::stdout)?;
    Ok(ExitCode::SUCCESS)
}

fn run(arguments: Arguments) -> Result<Output, Failure> {
    let options = &arguments.options;
    match arguments.command {
        Command::Pool(command) => pool::run(&command, options),
        Command::Kv(command) => kv::run(&command, options),
        Command::Volume(command) => volume::run(&command, options),
        Command::Log(command) => log::run(&command, options),
        Command::Platform(command) => platform::run(&command),
        Command::Ipmctl(words) => ipmctl::run(&words),
        Command::Ndctl(ndctl) => ndctl::run(&ndctl),
        Command::Daxctl(daxctl) => ndctl::run_daxctl(&daxctl),
        Command::Crash(what) => crash::run(&what, options.durability),
        Command::Demo(what) => demo::run(&what, options.durability.forced(), options.json),
        Command::Bench(what) => bench::run(&what),
        Command::Completions { shell } => manual::print_completions(shell),
        Command::Manual { folder } => manual::write_pages(&folder),
    }
}
