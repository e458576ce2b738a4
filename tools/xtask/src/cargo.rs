//! Running cargo: passes its output on, counts the tests in it, and notes those that failed.

use crate::failure::Failures;
use crate::log::Log;
use crate::tally::Tally;
use crate::workspace::{Package, Workspace};
use anyhow::{Context, Result, anyhow};
use cargo_metadata::Message;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::{env, fs, io, thread};

/// A call of cargo under construction.
pub(crate) struct Cargo {
    command: Command,
    shown: String,
}

/// Result of a call of cargo.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) success: bool,
    pub(crate) tally: Tally,
}

/// A thread that reads standard error. It returns the counts, and the first error that is not a failed test.
type StderrReader = thread::JoinHandle<io::Result<(Tally, Option<String>)>>;

/// A test program that cargo built.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Arguments for `cargo test` that run the program: `-p lode-heap --test crash`.
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) path: PathBuf,
    /// Folder of the package, in which the program runs.
    pub(crate) folder: PathBuf,
}

impl Cargo {
    /// Returns a call of cargo of the pinned stable toolchain, in the root folder. The words are split at spaces.
    pub(crate) fn stable(workspace: &Workspace, words: &str) -> Cargo {
        let mut command = Command::new("cargo");
        // No test may wait for input.
        command.current_dir(&workspace.root).args(words.split(' ')).stdin(Stdio::null());
        Cargo { command, shown: format!("cargo {words}") }
    }

    /// Returns a call of cargo of the pinned nightly toolchain, with the tools that the set-up built on its path.
    pub(crate) fn nightly(workspace: &Workspace, words: &str) -> Result<Cargo> {
        let pin = workspace.root.join("setup/nightly.txt");
        let name = fs::read_to_string(&pin).with_context(|| pin.display().to_string())?;
        let tools = workspace.target.join("tools/bin");
        let path = env::var_os("PATH").unwrap_or_default();
        let path: Vec<PathBuf> = [tools].into_iter().chain(env::split_paths(&path)).collect();
        Ok(Cargo::stable(workspace, &format!("+{} {words}", name.trim()))
            .set("PATH", &env::join_paths(path)?))
    }

    /// Sets an environment variable.
    pub(crate) fn set(mut self, name: &str, value: impl AsRef<OsStr>) -> Cargo {
        if name != "PATH" {
            self.shown = format!("{name}={:?} {}", value.as_ref(), self.shown);
        }
        self.command.env(name, value);
        self
    }

    /// Adds an argument that may hold spaces.
    pub(crate) fn argument(mut self, argument: impl AsRef<OsStr>) -> Cargo {
        self.shown = format!("{} {}", self.shown, argument.as_ref().display());
        self.command.arg(argument);
        self
    }

    /// Adds arguments that may hold spaces.
    pub(crate) fn arguments(self, arguments: Vec<OsString>) -> Cargo {
        arguments.into_iter().fold(self, Cargo::argument)
    }

    /// Runs the call to its end.
    pub(crate) fn run(self, log: Log) -> Result<Outcome> {
        let (mut child, errors) = self.start(log)?;
        let output = child.stdout.take().context("no standard output")?;
        let (mut tally, mut failures) = (Tally::default(), Failures::default());
        for_each_line(output, |line| {
            tally.read(line);
            failures.read(line);
            log.line(line);
        })?;
        let (stderr_tally, error) =
            errors.join().map_err(|_| anyhow!("the reader of standard error panicked"))??;
        tally.add(stderr_tally);
        let (failures, other) = failures.into_parts();
        (tally.failures, tally.error) = (failures, error.or(other));
        Ok(Outcome { success: child.wait()?.success(), tally })
    }

    /// Builds test programs without running them. Returns an error if one can't be built.
    pub(crate) fn build(self, workspace: &Workspace, log: Log) -> Result<Vec<Program>> {
        let (mut child, errors) =
            self.argument("--no-run").argument("--message-format=json-render-diagnostics").start(log)?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut programs = Vec::new();
        for message in Message::parse_stream(output) {
            let Message::CompilerArtifact(artifact) = message? else { continue };
            let Some(path) = artifact.executable.filter(|_| artifact.profile.test) else { continue };
            let is_of = |package: &&Package| package.id == artifact.package_id.repr;
            let Some(package) = workspace.packages.iter().find(is_of) else { continue };
            let kind = artifact.target.kind.first().map(ToString::to_string).unwrap_or_default();
            let target = match kind.as_str() {
                "test" | "bin" | "example" => format!("--{kind} {}", artifact.target.name),
                _ => "--lib".to_owned(),
            };
            programs.push(Program {
                name: format!("-p {} {target}", package.name),
                package: package.name.clone(),
                path: path.into(),
                folder: workspace.root.join(&package.folder),
            });
        }
        let (_, error) = errors.join().map_err(|_| anyhow!("the reader of standard error panicked"))??;
        if child.wait()?.success() {
            return Ok(programs);
        }
        Err(anyhow!(error.unwrap_or_else(|| "cargo could not build the tests".to_owned())))
    }

    /// Starts the call, and a thread that passes on its standard error.
    fn start(mut self, log: Log) -> Result<(Child, StderrReader)> {
        log.line(&format!("$ {}", self.shown));
        let mut child =
            self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context(self.shown)?;
        let errors = child.stderr.take().context("no standard error")?;
        let reader = thread::spawn(move || {
            let (mut tally, mut failures) = (Tally::default(), Failures::default());
            for_each_line(errors, |line| {
                tally.read(line);
                failures.read(line);
                log.line(line);
            })?;
            Ok((tally, failures.into_parts().1))
        });
        Ok((child, reader))
    }
}

/// Calls `each` with each line as it arrives.
fn for_each_line(from: impl Read, mut each: impl FnMut(&str)) -> io::Result<()> {
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        each(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(())
}
