//! `lode`: pools, and keys and values in them, from the command line.
//!
//! ```text
//!   words       the words of the command line, before arguments are parsed from them
//!   arguments   commands and flags: help, manual pages and completions come from it
//!   pool kv volume log platform ipmctl ndctl daxctl cxl exec crash bench demo
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
mod completions;
mod crash;
mod cxl;
mod daxctl;
mod demo;
mod durability;
mod exec;
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
mod words;

use arguments::{Arguments, Command};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use failure::Failure;
use output::Output;
use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    interrupt::ignore_sigxfsz();
    let (json, words) = words::take_json(env::args_os());
    let arguments = match Arguments::try_parse_from(words::with_help_option(&Arguments::command(), words)) {
        Ok(mut arguments) => {
            arguments.options.json = json;
            arguments
        }
        Err(error) if error.use_stderr() && json => return Failure::from_clap(&error).report(true),
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => {
            return print_help_or_version(&help, json).unwrap_or_else(|failure| failure.report(json));
        }
    };
    match run(arguments).and_then(|output| output.print(json)) {
        Ok(code) => code,
        Err(failure) => failure.report(json),
    }
}

/// Prints help, which is text, or the version. clap returns both as errors.
fn print_help_or_version(help: &clap::Error, json: bool) -> Result<ExitCode, Failure> {
    if json && help.kind() == ErrorKind::DisplayVersion {
        return Output::empty().with("version", env!("CARGO_PKG_VERSION")).print(true);
    }
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
        Command::Ipmctl(words) => ipmctl::run(&words, options.json),
        Command::Ndctl(ndctl) => ndctl::run(&ndctl, options.json),
        Command::Daxctl(daxctl) => daxctl::run(&daxctl),
        Command::Cxl(cxl) => cxl::run(&cxl),
        Command::Crash(what) => crash::run(&what, options.durability),
        Command::Demo(what) => demo::run(&what, options.durability.forced(), options.json),
        Command::Bench(what) => bench::run(&what, options.json),
        Command::Exec(what) => exec::run(&what, options.durability),
        Command::Completions(what) => manual::print_completions(what.shell),
        Command::Manual { folder } => manual::write_pages(&folder),
    }
}
