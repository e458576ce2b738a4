//! One run of a machine, from its start to one of three ends.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Output of a guest, and the end of its run.
pub(crate) struct GuestOutput {
    /// Whole lines, without line ends.
    pub(crate) lines: Vec<String>,
    pub(crate) end: End,
}

/// Ways in which a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The machine ended by itself.
    PoweredOff,
    /// Killed at the line that the scenario names.
    Killed,
    /// Killed since it printed nothing for [`LONGEST_SILENCE`], or printed for [`LONGEST_BOOT`] without an end.
    TimedOut,
}

/// A boot that prints no line for this long hangs. Scenarios print a line for each step, which takes seconds on an idle
/// machine.
pub(crate) const LONGEST_SILENCE: Duration = Duration::from_secs(120);
/// A boot that still prints after this time repeats itself: many times what any boot takes on an idle machine.
pub(crate) const LONGEST_BOOT: Duration = Duration::from_secs(900);

/// A machine that is killed when this value is dropped.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // The machine has ended already, or this ends it. A failure could not be reported to any caller.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a machine until it ends, prints a line with the text `killed_at`, or hangs. In the last two cases SIGKILL ends
/// it, so the machine can't write anything more.
pub(crate) fn run(mut command: Command, killed_at: Option<&str>) -> Result<GuestOutput> {
    let deadline = Instant::now() + LONGEST_BOOT;
    let mut machine = Machine(command.spawn().context("qemu-system-x86_64")?);
    let output = machine.0.stdout.take().context("no standard output")?;
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || read_lines(output, &sender));
    let (mut lines, mut end) = (Vec::new(), End::PoweredOff);
    loop {
        match receiver.recv_timeout(LONGEST_SILENCE.min(deadline.saturating_duration_since(Instant::now()))) {
            Ok(line) => {
                if end == End::PoweredOff && killed_at.is_some_and(|text| line.contains(text)) {
                    end = End::Killed;
                    machine.0.kill()?;
                }
                lines.push(line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            // Lines that the machine printed before it was killed are still in the pipe.
            Err(RecvTimeoutError::Timeout) if end != End::PoweredOff => break,
            Err(RecvTimeoutError::Timeout) => {
                end = End::TimedOut;
                machine.0.kill()?;
                break;
            }
        }
    }
    drop(machine);
    // The pipe is closed now, so the reader ends.
    drop(reader.join());
    lines.extend(receiver.try_iter());
    Ok(GuestOutput { lines, end })
}

/// Sends on each line that has a line end. A line without one was cut, and is dropped.
fn read_lines(output: ChildStdout, sender: &mpsc::Sender<String>) {
    let mut lines = BufReader::new(output);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) && line.ends_with(b"\n") {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if sender.send(text).is_err() {
            return;
        }
        line.clear();
    }
}
