#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part, and a test may panic")]
//! Trials of the ledger, one after another.

use lode_powercut::ledger::{Ledger, acknowledged};
use lode_powercut::{Trial, Verdict};
use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

const THREADS: u64 = 4;
/// Smallest size that the heap allows: the log of 256 KiB wraps every 64 groups.
const POOL_SIZE: u64 = 4 << 20;
const SAMPLES: u64 = 6;
/// Number of requests after which every part of the program has run a few times.
const REQUESTS_MAX: u64 = 1000;

/// Result of the trials.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    /// This machine can't run them.
    Skipped,
    Violation(String),
}

/// Returns a whole number from the environment, or `default`.
fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs trials, `rounds` times the budget, until one finds a wrong image. `bug` is the seeded bug to plant in the
/// program.
pub(crate) fn ledger(test: &str, rounds: u64, bug: Option<&str>) -> Found {
    let rounds = rounds * number("LODE_BUDGET", 1);
    let seed = number("LODE_SEED", 20);
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("new");
    Ledger::create(&pool, POOL_SIZE, THREADS).unwrap();
    for round in 0..rounds {
        let cut_at = random.u64(1..=REQUESTS_MAX);
        let trial =
            Trial { pool: &pool, place: folder.path(), cut_at, samples: SAMPLES, seed: random.u64(..) };
        let tried = trial.run(|path| program(path, bug), verify);
        let verdict: Verdict = match tried.unwrap() {
            Ok(verdict) => verdict,
            Err(error) => {
                skip(test, &error);
                return Found::Skipped;
            }
        };
        let told = format!("LODE_SEED={seed}, round {round}, cut at request {cut_at}: {verdict}");
        println!("{told}");
        if verdict.failure.is_some() {
            return Found::Violation(told);
        }
    }
    Found::Nothing
}

/// Reports that `test` can't run here.
pub(crate) fn skip(test: &str, error: &io::Error) {
    let line = format!("SKIP {test}: no FUSE file system can be mounted: {error}\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}

fn program(pool: &Path, bug: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
    command.arg(pool);
    if let Some(bug) = bug {
        command.env("LODE_BUG", bug);
    }
    command
}

/// Recovers the image, twice. It must hold the acknowledged transactions, and accept more.
fn verify(image: &Path, output: &str) -> anyhow::Result<()> {
    let acknowledged = acknowledged(output, THREADS);
    // Dropped without closing, as if the program was killed as soon as it had recovered.
    Ledger::open(image)?.verify(&acknowledged)?;
    let ledger = Ledger::open(image)?;
    ledger.verify(&acknowledged)?;
    ledger.go_on()?;
    ledger.close()
}
