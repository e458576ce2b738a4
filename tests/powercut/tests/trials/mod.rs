#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part, and a test may panic")]
//! Trials of the programs, one after another.

use lode_powercut::history::{self, Keys};
use lode_powercut::ledger::{Ledger, acknowledged};
use lode_powercut::{Trials, TrialsResult};
use lode_testing::{scaled, seed};
use std::path::Path;
use std::process::Command;

const THREADS: u64 = 4;
/// Smallest size that the heap allows: the log of 256 KiB wraps every 64 groups.
pub(crate) const POOL_SIZE: u64 = 4 << 20;
const SAMPLES: u64 = 6;
/// Number of requests after which every part of the program has run a few times.
const REQUESTS_MAX: u64 = 1000;
/// As `REQUESTS_MAX`, for histories.
const HISTORY_REQUESTS_MAX: u64 = 600;

/// Runs trials, `rounds` times the budget, until one finds a wrong image. `bug` is the seeded bug to plant in the
/// program.
pub(crate) fn ledger(test: &str, rounds: u64, bug: Option<&str>) -> TrialsResult {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("new");
    Ledger::create(&pool, POOL_SIZE, THREADS).unwrap();
    let trials = Trials {
        pool: &pool,
        folder: folder.path(),
        rounds: scaled(rounds),
        requests_max: REQUESTS_MAX,
        samples: SAMPLES,
        seed: seed(20),
    };
    report(test, trials.run(|path| program(path, bug), verify).unwrap())
}

/// As [`ledger`], for histories of 2 to 4 threads.
pub(crate) fn history(test: &str, rounds: u64, bug: Option<&str>) -> TrialsResult {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("new");
    Keys::create(&pool, POOL_SIZE).unwrap();
    let first = Keys::open(&pool).unwrap().content().unwrap();
    let (first_seed, mut last) = (seed(22), TrialsResult::Passed);
    for round in 0..scaled(rounds) {
        let seed = first_seed.wrapping_add(round);
        let trials = Trials {
            pool: &pool,
            folder: folder.path(),
            rounds: 1,
            requests_max: HISTORY_REQUESTS_MAX,
            samples: SAMPLES,
            seed,
        };
        let command = |path: &Path| history_program(path, 2 + seed % 3, seed, bug);
        let result = trials.run(command, |image, output| verify_history(&first, image, output)).unwrap();
        last = report(test, result);
        if !matches!(last, TrialsResult::Passed) {
            break;
        }
    }
    last
}

/// Reports that `test` can't run here, if so.
fn report(test: &str, result: TrialsResult) -> TrialsResult {
    if let TrialsResult::Unmountable(error) = &result {
        skip(test, error);
    }
    result
}

/// Reports that `test` can't run here.
pub(crate) fn skip(test: &str, error: &std::io::Error) {
    lode_testing::skip(test, format_args!("no FUSE file system can be mounted: {error}"));
}

fn program(pool: &Path, bug: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
    command.arg(pool);
    if let Some(bug) = bug {
        command.env("LODE_BUG", bug);
    }
    command
}

/// Returns the program that runs histories.
pub(crate) fn history_program(pool: &Path, threads: u64, seed: u64, bug: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_history"));
    command.arg(pool).args([threads, seed].map(|number| number.to_string()));
    if let Some(bug) = bug {
        command.env("LODE_BUG", bug);
    }
    command
}

/// Recovers the image, twice. Some order of the transactions must explain its keys.
fn verify_history(first: &history::Content, image: &Path, output: &str) -> anyhow::Result<()> {
    let found = Keys::open(image)?.content()?;
    history::verify(first, output, &found)?;
    let keys = Keys::open(image)?;
    anyhow::ensure!(keys.content()? == found, "the second recovery finds other keys");
    keys.close()
}

/// Recovers the image, twice. It must hold the acknowledged transactions, and accept more.
fn verify(image: &Path, output: &str) -> anyhow::Result<()> {
    let acknowledged = acknowledged(output, THREADS);
    // Dropped without closing, as if the program was killed as soon as it had recovered.
    Ledger::open(image)?.verify(&acknowledged)?;
    let ledger = Ledger::open(image)?;
    ledger.verify(&acknowledged)?;
    ledger.run_one_each()?;
    ledger.close()
}
