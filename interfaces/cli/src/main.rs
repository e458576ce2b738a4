//! `lode`: pools, and keys and values in them, from the command line.
//!
//! ```text
//!   arguments   commands and flags: help, manual pages and completions come from it
//!   pool kv platform ipmctl ndctl crash bench demo
//!               one module for each noun: calls the libraries, makes an Answer
//!   answer      the output: text, or one JSON object               failure   errors and exit codes
//!   next_step   the command that does what an error asks for
//!   progress    bars and spinners on the terminal                   interrupt  signals
//! ```
//!
//! It does: read arguments and print. It does not: know how anything is stored.
#![forbid(unsafe_code)]

mod answer;
mod arguments;
mod bench;
mod crash;
mod demo;
mod durability;
mod failure;
mod fields;
mod global_options;
mod interrupt;
mod ipmctl;
mod kv;
mod manual;
mod ndctl;
mod next_step;
mod platform;
mod pool;
mod progress;
mod size;

use answer::Answer;
use arguments::{Arguments, Noun};
use clap::Parser;
use failure::Failure;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    interrupt::survive_file_limit();
    let asked_for_json = std::env::args_os().any(|argument| argument == OsStr::new("--json"));
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() && asked_for_json => return Failure::usage(&error).report(true),
        Err(error) if error.use_stderr() => error.exit(),
        Err(asked_for) => {
            return print_asked_for(&asked_for).unwrap_or_else(|failure| failure.report(asked_for_json));
        }
    };
    let json = arguments.options.json;
    match run(arguments).and_then(|answer| answer.print(json)) {
        Ok(code) => code,
        Err(failure) => failure.report(json),
    }
}

/// Prints help or the version, which clap returns as errors.
fn print_asked_for(asked_for: &clap::Error) -> Result<ExitCode, Failure> {
    asked_for.print().and_then(|()| io::stdout().flush()).map_err(Failure::output)?;
    Ok(ExitCode::SUCCESS)
}

fn run(arguments: Arguments) -> Result<Answer, Failure> {
    let options = &arguments.options;
    match arguments.noun {
        Noun::Pool(verb) => pool::run(&verb, options),
        Noun::Kv(verb) => kv::run(&verb, options),
        Noun::Platform(verb) => platform::run(&verb),
        Noun::Ipmctl(words) => ipmctl::run(&words),
        Noun::Ndctl(ndctl) => ndctl::run(&ndctl),
        Noun::Daxctl(daxctl) => ndctl::run_daxctl(&daxctl),
        Noun::Crash(what) => crash::run(&what, options.durability),
        Noun::Demo(what) => demo::run(&what, options.durability.forced(), options.json),
        Noun::Bench(what) => bench::run(&what),
        Noun::Completions { shell } => manual::print_completions(shell),
        Noun::Manual { folder } => manual::write_pages(&folder),
    }
}
