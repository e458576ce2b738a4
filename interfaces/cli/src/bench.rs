//! `lode bench`: runs the program that measures Lodestone and its peers.

use crate::failure::Failure;
use crate::output::Output;
use clap::Args;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Name of the program. It is built separately because it links the peers.
const PROGRAM: &str = "lode-bench";

#[derive(Args, Debug)]
#[command(
    after_long_help = "The program that measures, lode-bench, is built apart, because it links the peers. It is searched \
beside lode, in tools/bench of the sources that lode was built from, and in PATH; `make bench` in the sources builds and \
runs it. It prints its own output, JSON included."
)]
pub(crate) struct Bench {
    /// Groups of workloads and single rows to measure; without a name, all but the slowest rows
    names: Vec<String>,
}

/// Runs the program, which writes its results itself.
pub(crate) fn run(bench: &Bench) -> Result<Output, Failure> {
    let missing = || {
        Failure::new(
            "measuring",
            "lode-bench is neither beside lode nor in PATH; run `make bench` in the sources, which builds it",
        )
    };
    let program = find().ok_or_else(missing)?;
    let status = Command::new(&program).args(&bench.names).stdin(Stdio::null()).status();
    let status = status.map_err(|error| Failure::io("measuring", &program, &error))?;
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
