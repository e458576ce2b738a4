//! One run of a machine: started, listened to, and ended in one of three ways.

use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// What a guest printed, and how it ended.
pub(crate) struct Printed {
    /// Whole lines, without their ends.
    pub(crate) lines: Vec<String>,
    pub(crate) end: End,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself.
    Off,
    /// Killed, as the scenario wants it.
    Killed,
    /// Killed, because it took too long.
    TimedOut,
}

/// A machine that does not outlive its owner.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // It has ended already, or this ends it; there is nobody to tell of a failure.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a machine until it ends, prints a line with the text `killed_at`, or `limit` is over. SIGKILL ends it then: the
/// machine has no chance to write anything more.
pub(crate) fn run(mut command: Command, killed_at: Option<&str>, limit: Duration) -> Result<Printed> {
    let deadline = Instant::now() + limit;
    let mut machine = Machine(command.spawn().context("qemu-system-x86_64")?);
    let output = machine.0.stdout.take().context("no standard output")?;
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || read_lines(output, &sender));
    let (mut lines, mut end) = (Vec::new(), End::Off);
    loop {
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if end == End::Off && killed_at.is_some_and(|text| line.contains(text)) {
                    end = End::Killed;
                    machine.0.kill()?;
                }
                lines.push(line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            // What the machine printed before it was killed is still on its way.
            Err(RecvTimeoutError::Timeout) if end != End::Off => break,
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
    Ok(Printed { lines, end })
}

/// Sends on each line that has an end: one without was cut, and says nothing.
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
