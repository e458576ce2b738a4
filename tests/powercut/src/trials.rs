//! Trials of one program, each cut at another request.

use crate::{Trial, Verdict};
use anyhow::Result;
use std::io;
use std::path::Path;
use std::process::Command;

/// The parameters of a series of trials.
#[derive(Clone, Copy, Debug)]
pub struct Trials<'a> {
    /// A pool in a file, the content of the disk when the program starts.
    pub pool: &'a Path,
    /// A folder for the mounted file system, and for images.
    pub folder: &'a Path,
    /// Number of trials.
    pub rounds: u64,
    /// Highest number of the request during which the power is cut.
    pub requests_max: u64,
    /// Number of images to draw in each trial, as in [`Trial::samples`].
    pub samples: u64,
    /// Seed of all choices except those of the kernel.
    pub seed: u64,
}

/// Result of a series of trials.
#[derive(Debug)]
pub enum TrialsResult {
    /// Every image was right.
    Passed,
    /// This machine can't mount a FUSE file system.
    Unmountable(io::Error),
    /// An image was wrong. The text names the seed, the trial and the fault.
    Violation(String),
}

impl Trials<'_> {
    /// Runs trials as [`Trial::run`] does, until one finds a wrong image. Prints the verdict of each.
    ///
    /// # Errors
    /// Those of [`Trial::run`].
    pub fn run(
        &self,
        command: impl Fn(&Path) -> Command,
        verify: impl Fn(&Path, &str) -> Result<()>,
    ) -> Result<TrialsResult> {
        let Trials { pool, folder, samples, .. } = *self;
        let mut random = fastrand::Rng::with_seed(self.seed);
        for round in 0..self.rounds {
            let cut_at = random.u64(1..=self.requests_max);
            let trial = Trial { pool, folder, cut_at, samples, seed: random.u64(..) };
            let verdict: Verdict = match trial.run(&command, &verify)? {
                Ok(verdict) => verdict,
                Err(error) => return Ok(TrialsResult::Unmountable(error)),
            };
            let summary =
                format!("LODE_SEED={}, round {round}, cut at request {cut_at}: {verdict}", self.seed);
            println!("{summary}");
            if verdict.failure.is_some() {
                return Ok(TrialsResult::Violation(summary));
            }
        }
        Ok(TrialsResult::Passed)
    }
}
