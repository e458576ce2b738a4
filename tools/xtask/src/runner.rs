//! Running the tests of many programs on all cores: each test in a process of its own, started as soon as a core is
//! free.

use crate::cargo::Program;
use crate::failure::{Failure, reason_in};
use crate::log::Log;
use crate::tally::Tally;
use anyhow::{Context, Result, bail};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A test: its program, and its name in that program.
#[derive(Clone, Copy, Debug)]
struct Test<'a> {
    program: &'a Program,
    name: &'a str,
}

impl Test<'_> {
    /// Returns the names of the program and of the test in it.
    fn full_name(&self) -> String {
        format!("{} {}", self.program.name, self.name)
    }
}

/// Result of a test.
#[derive(Debug)]
struct TestResult {
    tally: Tally,
    output: String,
    time: Duration,
}

/// The environment of the tests.
pub(crate) struct TestEnvironment<'a> {
    /// Folder of the toolchain's libraries, with which the tests of a procedural macro are linked.
    pub(crate) libraries: &'a Path,
    /// Environment variables.
    pub(crate) settings: &'a [(&'static str, String)],
    /// Beginnings of the names of tests that do not run.
    pub(crate) left_out: &'a [String],
}

/// Runs all tests of `programs`.
///
/// # Errors
/// Fails if a program can't list its tests.
pub(crate) fn run(programs: &[Program], environment: &TestEnvironment<'_>, log: Log) -> Result<Tally> {
    let lists = programs.iter().map(|program| environment.list(program)).collect::<Result<Vec<_>>>()?;
    let all = programs
        .iter()
        .zip(&lists)
        .flat_map(|(program, names)| names.iter().map(move |name| Test { program, name }));
    let mut tests: Vec<Test<'_>> = all.filter(|test| !environment.leaves_out(&test.full_name())).collect();
    // They take longest, so that no core has to wait for them at the end.
    tests.sort_by_key(|test| !test.program.name.ends_with("--test crash"));
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut tally = Tally::default();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            let (next, tests, sender) = (&next, &tests, sender.clone());
            scope.spawn(move || {
                // ORDER: none: the number only chooses the next test.
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver waits for all senders.
                    let _ = sender.send((*test, environment.run(*test)));
                }
            });
        }
        drop(sender);
        for (test, ended) in receiver {
            let TestResult { tally: counted, output, time } = ended;
            let (name, seconds) = (test.full_name(), time.as_secs_f64());
            let word = if counted.failed == 0 { "ok" } else { "FAILED" };
            log.line(&format!("{word:<6} {seconds:>7.2} s  {name}"));
            if counted.failed > 0 {
                log.text(&output);
            }
            tally.add(counted);
            tally.times.push((time, name));
        }
    });
    Ok(tally)
}

impl TestEnvironment<'_> {
    fn command(&self, program: &Program) -> Command {
        let mut command = Command::new(&program.path);
        command.current_dir(&program.folder).stdin(Stdio::null());
        // Variables that cargo sets, for the tests that read them.
        command.env("CARGO_MANIFEST_DIR", &program.folder).env("CARGO_PKG_NAME", &program.package);
        command.env("CARGO", "cargo").env("LD_LIBRARY_PATH", self.libraries);
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Returns the names of the tests of a program.
    fn leaves_out(&self, name: &str) -> bool {
        self.left_out.iter().any(|start| name.starts_with(start.as_str()))
    }

    fn list(&self, program: &Program) -> Result<Vec<String>> {
        let listed = self.command(program).args(["--list", "--format", "terse"]).output();
        let listed = listed.with_context(|| program.path.display().to_string())?;
        if !listed.status.success() {
            bail!("{} can't list its tests: {}", program.name, String::from_utf8_lossy(&listed.stderr));
        }
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    fn run(&self, test: Test<'_>) -> TestResult {
        let begin = Instant::now();
        let ran = self
            .command(test.program)
            .args([test.name, "--exact", "--nocapture", "--test-threads=1"])
            .output();
        let time = begin.elapsed();
        let mut tally = Tally::default();
        let (output, end) = match ran {
            Ok(ran) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                (
                    text(&ran.stdout) + &text(&ran.stderr),
                    (!ran.status.success()).then(|| ran.status.to_string()),
                )
            }
            Err(error) => (String::new(), Some(error.to_string())),
        };
        output.lines().for_each(|line| tally.read(line));
        if let Some(end) = end {
            (tally.passed, tally.failed) = (0, 1);
            let name = test.full_name();
            tally.failures = vec![Failure { name, reason: reason_in(&output).or(Some(end)) }];
        }
        TestResult { tally, output, time }
    }
}
