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

/// What a run of the program did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Ran {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// What it printed, if it succeeded.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// What it complained of, if it ended with this exit code and each of `parts` is in it.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, parts: &[&str]) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "no {part:?} in {self:?}");
        }
        self.err
    }

    /// The JSON objects that it printed.
    #[track_caller]
    pub(crate) fn objects(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self:?}")))
            .collect()
    }

    /// The last JSON object that it printed.
    #[track_caller]
    pub(crate) fn object(&self) -> Value {
        self.objects().pop().unwrap_or_else(|| panic!("no JSON in {self:?}"))
    }
}

/// The program, not yet started.
pub(crate) fn command<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lode"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn lode<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ran {
    Ran::of(command(arguments).output().unwrap())
}

/// Runs the program with this text as its standard input, a pipe.
pub(crate) fn lode_reading<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>, text: &[u8]) -> Ran {
    let mut command = command(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // The program may end before it has read everything.
        scope.spawn(move || drop(input.write_all(text)));
        Ran::of(child.wait_with_output().unwrap())
    })
}

/// A folder with an empty pool in it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) pool: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place::of_size("8MiB")
    }

    pub(crate) fn of_size(size: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("test.pool");
        lode(["pool", "create", "--size", size, text(&pool)]).good();
        Place { folder, pool }
    }

    pub(crate) fn pool(&self) -> &str {
        text(&self.pool)
    }

    /// A file in the folder with this content.
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

/// The fields that the help of this command names.
pub(crate) fn documented(command: &[&str]) -> BTreeSet<String> {
    let help = lode(command.iter().copied().chain(["--help"])).good();
    let section = help.split("JSON fields:\n").nth(1).unwrap_or_else(|| panic!("no fields in {help}"));
    let lines = section.lines().take_while(|line| !line.trim().is_empty());
    // Continued lines are indented further than the names.
    let named = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    named.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// The fields of all these objects.
pub(crate) fn fields(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().flat_map(|object| object.as_object().unwrap().keys().cloned()).collect()
}
