//! `lode bench`: runs the program that measures Lodestone and its peers.

use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use clap::Args;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Name of the program. It is built separately because it links the peers.
const PROGRAM: &str = "lode-bench";
/// Exit code of a program whose libraries the loader does not find.
const NOT_LOADED: i32 = 127;

const ABOUT: &str = "\
Measure Lodestone and its peers side by side.

The program that measures, lode-bench, is built apart, because it links the peers. It is searched beside lode, in tools/bench of \
the sources that lode was built from, and in PATH; `make bench` in the sources installs what it needs, builds and runs it. It says \
first how long it will take and what it lacks, then what it is at and how long the rest takes. All rows take about 20 minutes, \
with --quick about a minute. `lode-bench --help` lists further options.";

const FIELDS: &[(&str, &str)] = &[
    ("machine", "what was measured on: CPU, kernel, file systems, versions of the peers"),
    ("seed", "seed of the random order of keys and places"),
    ("quick", "whether the figures mean nothing"),
    ("rounds", "laps of each engine"),
    ("long_rounds", "laps of each engine in the workloads whose laps take seconds"),
    ("load_rounds", "laps of each engine in load-words and store-*"),
    ("scale", "size of store-*, as a part of redb's own bench"),
    (
        "foundation",
        "rows of transactions, trees and stores: {work, peer, ours, theirs, unit, ratio} or {work, ours, unit, limit, met}",
    ),
    ("volumes", "rows of volumes and logs, in the same form"),
    ("capi", "rows of the libraries of the C ABI, in the same form"),
    ("absent", "figures that could not be had: {work, engine, reason}"),
    ("notes", "remarks"),
    ("failed", "groups that failed, each with its reason; the exit code is then 1"),
    ("files", "the files that were written, a page with charts among them"),
];

#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_long_help = fields::help(FIELDS))]
pub(crate) struct Bench {
    /// Tables (foundation, volumes, capi), groups of workloads and single rows to measure [default: all but the slowest rows]
    names: Vec<String>,
    /// Run every row once, to see that it runs; the figures mean nothing
    #[arg(long)]
    quick: bool,
}

/// Runs the program, which writes its results itself.
pub(crate) fn run(bench: &Bench, json: bool) -> Result<Output, Failure> {
    let missing = || {
        Failure::new(
            "measuring",
            "lode-bench is neither beside lode, nor in tools/bench of its sources, nor in PATH; run `make bench` in the \
             sources, which builds it",
        )
    };
    let program = find().ok_or_else(missing)?;
    let options = [(bench.quick, "--quick"), (json, "--json")];
    let mut command = Command::new(&program);
    command.args(options.iter().filter(|(is_given, _)| *is_given).map(|(_, option)| option));
    command.arg("--").args(&bench.names).env("PATH", path_with_lode()).stdin(Stdio::null());
    let status = command.status().map_err(|error| Failure::io("measuring", &program, &error))?;
    if status.code() == Some(NOT_LOADED) {
        let why = "it lacks a library of the peers; run `make bench` in the sources, which installs them";
        return Err(Failure::new("measuring", format_args!("{}: {why}", program.display())));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(Output::empty().with_exit_code(code))
}

fn find() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let beside = own.parent()?;
    let built = beside.ancestors().nth(2).map(|root| root.join("tools/bench/target/release"));
    let in_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
    let folders = [beside.to_owned()].into_iter().chain(built).chain(in_path.into_iter().flatten());
    folders.map(|folder| folder.join(PROGRAM)).find(|program| Path::is_file(program))
}

/// Returns PATH with the folder of this program at the end, where lode-bench finds it for the rows that run it.
fn path_with_lode() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let own = env::current_exe().ok().and_then(|own| own.parent().map(Path::to_owned));
    let folders = env::split_paths(&path).chain(own);
    env::join_paths(folders).unwrap_or(path)
}
