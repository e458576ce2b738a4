#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part, and a test may panic")]
//! Running the program.

use anyhow::{Context, ensure};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl RunResult {
    pub(crate) fn of(output: Output) -> RunResult {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        RunResult { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Returns standard output. Panics if the program failed.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// Returns standard error. Panics if the exit code differs or one of `parts` is missing.
    #[track_caller]
    pub(crate) fn failure(self, code: i32, parts: &[&str]) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "no {part:?} in {self:?}");
        }
        self.err
    }

    /// Returns the JSON objects of standard output, one a line.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self:?}")))
            .collect()
    }

    /// Returns the last JSON object of standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        self.json_lines().pop().unwrap_or_else(|| panic!("no JSON in {self:?}"))
    }
}

/// Returns the command that runs the program.
pub(crate) fn command<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lode"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn lode<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> RunResult {
    RunResult::of(command(arguments).output().unwrap())
}

/// Runs the program in a shell, after the shell's command `limit`.
pub(crate) fn limited(limit: &str, arguments: &[&str]) -> RunResult {
    let run = format!("{limit}; exec \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &run, "sh", env!("CARGO_BIN_EXE_lode")]).args(arguments);
    RunResult::of(shell.stdin(Stdio::null()).output().unwrap())
}

/// Runs the program with this text as its standard input, a pipe.
pub(crate) fn lode_with_stdin<A: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = A>,
    text: &[u8],
) -> RunResult {
    let mut command = command(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // The program may end before it has read everything.
        scope.spawn(move || drop(input.write_all(text)));
        RunResult::of(child.wait_with_output().unwrap())
    })
}

/// A folder with an empty pool in it.
pub(crate) struct PoolFixture {
    pub(crate) folder: TempDir,
    pub(crate) pool: PathBuf,
}

impl PoolFixture {
    pub(crate) fn new() -> PoolFixture {
        PoolFixture::of_size("8MiB")
    }

    pub(crate) fn of_size(size: &str) -> PoolFixture {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("test.pool");
        lode(["pool", "create", "--size", size, text(&pool)]).success();
        PoolFixture { folder, pool }
    }

    /// Makes a pool that does not grow by itself.
    pub(crate) fn fixed(size: &str) -> PoolFixture {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("test.pool");
        lode(["pool", "create", "--size", size, "--size-max", size, text(&pool)]).success();
        PoolFixture { folder, pool }
    }

    pub(crate) fn pool(&self) -> &str {
        text(&self.pool)
    }

    /// Writes a file in the folder; returns its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

/// Compares an export of a pool with the pairs that were loaded and the keys that were acknowledged. At most
/// `in_flight` keys may be durable without an acknowledgement. Returns the number of keys.
pub(crate) fn compare(
    exported: &str,
    values: &HashMap<String, String>,
    acknowledged: &HashSet<&str>,
    in_flight: usize,
) -> anyhow::Result<usize> {
    let mut there = HashSet::new();
    for line in exported.lines() {
        let (key, value) = line.split_once('\t').context("a line without a tab")?;
        ensure!(values.get(key).is_some_and(|loaded| loaded == value), "{key} was never loaded so");
        there.insert(key);
    }
    let lost: Vec<_> = acknowledged.difference(&there).take(5).collect();
    ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let besides = there.len() - acknowledged.len();
    ensure!(besides <= in_flight, "{besides} keys are there without an acknowledgement");
    Ok(there.len())
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the JSON fields that the help of this command names.
pub(crate) fn documented_fields(command: &[&str]) -> BTreeSet<String> {
    let help = lode(command.iter().copied().chain(["--help"])).success();
    let section = help.split("JSON fields:\n").nth(1).unwrap_or_else(|| panic!("no fields in {help}"));
    let lines = section.lines().take_while(|line| !line.trim().is_empty());
    // Continued lines are indented further than the names.
    let named = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// Returns the fields of all these objects.
pub(crate) fn json_fields(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().flat_map(|object| object.as_object().unwrap().keys().cloned()).collect()
}
