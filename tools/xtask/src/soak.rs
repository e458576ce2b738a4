//! `make soak`: the same tests with larger budgets and new seeds, again and again.

use crate::cargo::Cargo;
use crate::log::Log;
use crate::mutants::Selection;
use crate::stages::{Run, Verdict, bugs, lab, loom, miri, mutants_of, random_namespaces, release, test};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Factor of the budgets over those of `make test`.
const BUDGET: u64 = 10;
/// Seconds of fuzzing for each target in each round.
const FUZZ_SECONDS: u64 = 120;
/// Seeds in each round for the lab's scenario of random namespaces. It has 20 on each of two kernels, so a round has 200.
const NAMESPACE_SEEDS: u64 = 5;

/// Runs rounds until the time is up or one fails. Returns true if none failed.
pub(crate) fn run(workspace: &Workspace, minutes: u64) -> Result<bool> {
    let start = Instant::now();
    let time = Duration::from_secs(minutes * 60);
    let mut passed = 0;
    let mut rounds = 0;
    while rounds == 0 || start.elapsed() < time {
        rounds += 1;
        let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        println!("\n==== round {rounds}, LODE_SEED={seed} LODE_BUDGET={BUDGET}");
        let mut run = Run::new(workspace, Log::default());
        run.is_soak = true;
        run.settings = settings(seed);
        let mut good = true;
        for stage in [test, release, bugs, loom, miri] {
            good &= stage(&mut run)? != Verdict::Failed;
        }
        // They do the same in each round, so they run only once.
        if rounds == 1 {
            good &= lab(&mut run)? != Verdict::Failed;
            good &= mutants_of(&mut run, &Selection::All)? != Verdict::Failed;
        }
        for seed in seed..seed + NAMESPACE_SEEDS {
            println!("\n==== random namespaces, LODE_SEED={seed}");
            run.settings = settings(seed);
            good &= random_namespaces(&mut run)? != Verdict::Failed;
        }
        good &= fuzz(workspace)?;
        passed += run.tally.passed;
        if !good {
            println!("round {rounds} failed; to repeat it: LODE_SEED={seed} LODE_BUDGET={BUDGET} cargo test");
            for failure in &run.tally.failures {
                println!("failed: {failure}");
            }
            println!("{passed} passed, {} failed", run.tally.failed.max(1));
            return Ok(false);
        }
    }
    println!("{rounds} rounds in {:.0} minutes", start.elapsed().as_secs_f64() / 60.0);
    println!("{passed} passed, 0 failed");
    Ok(true)
}

/// Returns the environment of the tests.
fn settings(seed: u64) -> Vec<(&'static str, String)> {
    vec![("LODE_SEED", seed.to_string()), ("LODE_BUDGET", BUDGET.to_string())]
}

/// Fuzzes each target for a while, from its committed corpus. Returns true if none crashed. New inputs are kept in the
/// target folder, for the next time.
fn fuzz(workspace: &Workspace) -> Result<bool> {
    let mut good = true;
    for target in targets(&workspace.root.join("tests/fuzz/fuzz_targets"))? {
        let found = workspace.target.join("fuzzed").join(&target);
        fs::create_dir_all(&found)?;
        let limits = format!("-max_total_time={FUZZ_SECONDS} -print_final_stats=1");
        let words = format!(
            "fuzz run --fuzz-dir tests/fuzz --features libfuzzer {target} {} tests/fuzz/corpus/{target} -- {limits}",
            found.display()
        );
        good &= Cargo::nightly(workspace, &words)?.run(Log::default())?.success;
    }
    Ok(good)
}

/// Returns the names of the fuzz targets in a folder, none if it does not exist.
fn targets(folder: &Path) -> Result<Vec<String>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let files = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names = Vec::new();
    for file in files {
        let path = file?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}
