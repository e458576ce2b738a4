//! A run of a worker process: its end, its findings, and the step at which it died or hung.

use crate::progress::last_steps;
use anyhow::{Context, Result};
use std::fmt;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time without a new step of any thread after which a worker is taken to hang. Steps take milliseconds, so even a
/// machine a thousand times slower is not reported.
pub const STALL_LIMIT: Duration = Duration::from_secs(60);
/// Interval at which a worker is examined.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// First word of a line in which a worker reports a finding.
const FOUND: &str = "FOUND ";
/// Exit code of a worker that has found something.
pub const FOUND_CODE: u8 = 3;
/// Class of the finding for a worker that hangs.
pub(crate) const HANG: &str = "hang";

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A short word for the broken promise, the same for each finding of its kind.
    pub class: String,
    /// Description of what happened.
    pub what: String,
}

impl Finding {
    /// Makes a finding.
    pub fn new(class: impl Into<String>, what: impl fmt::Display) -> Finding {
        // One line each: findings pass through a pipe.
        Finding { class: class.into(), what: what.to_string().replace('\n', " / ") }
    }

    /// Prints the finding on a line that [`run`] reads back.
    pub fn print(&self) {
        println!("{FOUND}{self}");
    }

    fn parse(line: &str) -> Option<Finding> {
        let (class, what) = line.strip_prefix(FOUND)?.split_once(": ")?;
        Some(Finding { class: class.into(), what: what.into() })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.what)
    }
}

/// The result of a worker.
#[derive(Debug, Default)]
pub struct RunResult {
    /// Findings that the worker reported, or that its end shows.
    pub findings: Vec<Finding>,
    /// The rest of its output.
    pub out: String,
}

impl RunResult {
    /// Returns true if the worker found nothing and ended without an error.
    pub fn has_passed(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Runs `program` with `arguments` until it ends, or begins no step for `limit`. The last argument is a file for its
/// [`Progress`](crate::Progress).
///
/// # Errors
/// The worker can't be started, or its files can't be made.
pub fn run(program: &Path, arguments: &[String], limit: Duration) -> Result<RunResult> {
    let status = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(program);
    command.args(arguments).arg("--progress").arg(status.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| program.display().to_string())?;
    let mut out = child.stdout.take().context("a pipe")?;
    let mut err = child.stderr.take().context("a pipe")?;
    let reads = [thread::spawn(move || read_all(&mut out)), thread::spawn(move || read_all(&mut err))];
    let (mut seen, mut since) = (Vec::new(), Instant::now());
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        let now = std::fs::read(status.path())?;
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
        if since.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(POLL_INTERVAL);
    };
    let [out, err] = reads.map(|read| read.join().unwrap_or_default());
    let steps = last_steps(&std::fs::read(status.path())?).join(", ");
    let mut result = RunResult::default();
    for line in out.lines() {
        match Finding::parse(line) {
            Some(finding) => result.findings.push(finding),
            None => result.out += &format!("{line}\n"),
        }
    }
    let last_lines = || err.lines().rev().take(4).collect::<Vec<_>>().join(" | ");
    let end = ended.map(|status| (status.code(), status.signal()));
    match end {
        None => result.findings.push(Finding::new(
            HANG,
            format_args!("no step began for {} s; the last ones: {steps}", limit.as_secs()),
        )),
        Some((Some(0), _)) => {}
        Some((Some(code), _)) if code == i32::from(FOUND_CODE) && !result.findings.is_empty() => {}
        Some((code, signal)) => result.findings.push(Finding::new(
            "death",
            format_args!("exit code {code:?}, signal {signal:?}, at {steps}: {}", last_lines()),
        )),
    }
    Ok(result)
}

fn read_all(pipe: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    // The bytes before an error are still worth showing.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod test {
    use super::*;

    fn shell(script: &str, limit: Duration) -> RunResult {
        // The argument after the script is `$0`, then come `--progress` and the file.
        let arguments = ["-c".to_owned(), script.to_owned(), "worker".to_owned()];
        run(Path::new("/bin/sh"), &arguments, limit).unwrap()
    }

    #[test]
    fn findings_deaths_and_hangs_are_distinguished() {
        let long = Duration::from_secs(3600);
        assert!(shell("echo done", long).has_passed());
        let found = shell("echo 'FOUND class: what: it is'; echo more; exit 3", long);
        assert_eq!(found.findings, [Finding::new("class", "what: it is")]);
        assert_eq!(found.out, "more\n");
        for script in ["exit 3", "exit 101", "kill -SEGV $$"] {
            assert_eq!(shell(script, long).findings[0].class, "death", "{script}");
        }
        let step = r#"printf 'abcdefghstep 7' > "$2"; exec sleep 3600"#;
        let hang = shell(step, Duration::from_millis(300));
        assert_eq!(hang.findings[0].class, "hang");
        assert!(hang.findings[0].what.contains("thread 0: step 7"), "{hang:?}");
    }
}
