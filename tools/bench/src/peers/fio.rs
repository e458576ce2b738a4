//! fio, which counts its accesses and their time by itself.

use crate::clock::Lap;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::process::{Command, Stdio};

/// The part of fio's output that counts.
#[derive(Deserialize)]
struct Report {
    jobs: Vec<Job>,
}

/// A job of fio.
#[derive(Deserialize)]
pub(crate) struct Job {
    error: i32,
    /// Its reads.
    pub(crate) read: Accesses,
    /// Its writes.
    pub(crate) write: Accesses,
}

/// Accesses of one kind.
#[derive(Deserialize)]
pub(crate) struct Accesses {
    total_ios: u64,
    /// Milliseconds.
    runtime: u64,
}

impl Accesses {
    /// Returns the accesses as a lap.
    pub(crate) fn lap(&self) -> Result<Lap> {
        ensure!(self.total_ios > 0 && self.runtime > 0, "fio did nothing");
        Ok(Lap { ops: self.total_ios, ns: self.runtime * 1_000_000, ..Lap::default() })
    }
}

/// Runs fio, which prints JSON, and returns its first job.
pub(crate) fn run_fio(fio: &mut Command) -> Result<Job> {
    let output = fio.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "fio ended with {}: {}", output.status, said.trim());
    // The nbd engine prints a line of its own before the report.
    let begin = output.stdout.iter().position(|byte| *byte == b'{').context("fio printed no report")?;
    let report: Report = serde_json::from_slice(&output.stdout[begin..]).context("the output of fio")?;
    let job = report.jobs.into_iter().next().context("fio ran no job")?;
    ensure!(job.error == 0, "fio reports error {}: {}", job.error, said.trim());
    Ok(job)
}
