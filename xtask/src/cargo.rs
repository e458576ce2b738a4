//! Running cargo: its output is echoed while the tests in it are counted, and those that failed are noted.

use crate::failure::{Complaints, Printed};
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, anyhow};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs, io, thread};

/// A call of cargo in the making.
pub(crate) struct Cargo {
    command: Command,
    shown: String,
}

/// What a call of cargo came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) success: bool,
    pub(crate) tally: Tally,
}

impl Cargo {
    /// Cargo of the pinned stable toolchain, in the root folder. The words are split at spaces.
    pub(crate) fn stable(workspace: &Workspace, words: &str) -> Cargo {
        let mut command = Command::new("cargo");
        // No test may wait for somebody to type.
        command.current_dir(&workspace.root).args(words.split(' ')).stdin(Stdio::null());
        Cargo { command, shown: format!("cargo {words}") }
    }

    /// Cargo of the pinned nightly toolchain, with the tools that the set-up built on its path.
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
    pub(crate) fn set(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Cargo {
        if name != "PATH" {
            self.shown = format!("{name}={:?} {}", value.as_ref(), self.shown);
        }
        self.command.env(name, value);
        self
    }

    /// Adds an argument that may hold spaces.
    pub(crate) fn argument(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Cargo {
        self.shown = format!("{} {}", self.shown, argument.as_ref().display());
        self.command.arg(argument);
        self
    }

    /// Runs it to its end.
    pub(crate) fn run(mut self) -> Result<Outcome> {
        println!("$ {}", self.shown);
        let mut child =
            self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context(self.shown)?;
        let errors = child.stderr.take().context("no standard error")?;
        let output = child.stdout.take().context("no standard output")?;
        let reader = thread::spawn(move || {
            let mut complaints = Complaints::default();
            echo(errors, &mut io::stderr(), |line| complaints.read(line)).map(|tally| (tally, complaints))
        });
        let mut printed = Printed::default();
        let mut tally = echo(output, &mut io::stdout(), |line| printed.read(line))?;
        let (complained, mut complaints) =
            reader.join().map_err(|_| anyhow!("the reader of standard error panicked"))??;
        tally.add(complained);
        tally.error = complaints.error.take();
        let (failures, unfinished) = printed.failures(complaints);
        tally.failures = failures;
        tally.failed += unfinished;
        Ok(Outcome { success: child.wait()?.success(), tally })
    }
}

/// Copies lines as they come, counts the tests in them, and passes each on.
fn echo(from: impl Read, to: &mut impl Write, mut read: impl FnMut(&str)) -> io::Result<Tally> {
    let mut tally = Tally::default();
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        tally.read(text.trim_end());
        read(text.trim_end());
        to.write_all(&line)?;
        line.clear();
    }
    Ok(tally)
}
