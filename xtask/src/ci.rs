//! The stages of `make test`, in turn, and the table that closes them.

use crate::failure::Failure;
use crate::stages::{Run, STAGES, Stage, Verdict};
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// The tests that may skip themselves on a machine without special hardware, `NAME: why` on each line.
const EXPECTED_SKIPS: &str = "xtask/expected-skips.txt";

/// How a stage ended.
struct Report {
    name: &'static str,
    verdict: Verdict,
    tally: Tally,
    time: Duration,
}

/// Prints what there is to run.
pub(crate) fn print_list() -> bool {
    for stage in STAGES {
        println!("{:<10} {}", stage.name, stage.what);
    }
    true
}

/// Runs the stages of these names, or all; whether all is well.
pub(crate) fn run(workspace: &Workspace, names: &[String]) -> Result<bool> {
    if let Some(name) = names.iter().find(|name| STAGES.iter().all(|stage| stage.name != **name)) {
        bail!("no stage is called {name}; `cargo xtask ci --list` prints them");
    }
    let chosen =
        STAGES.iter().filter(|stage| names.is_empty() || names.iter().any(|name| name == stage.name));
    let reports: Vec<Report> = chosen.map(|stage| run_stage(workspace, stage)).collect();
    let expected = fs::read_to_string(workspace.root.join(EXPECTED_SKIPS)).context(EXPECTED_SKIPS)?;
    Ok(close(reports, &parse_skips(&expected)))
}

fn run_stage(workspace: &Workspace, stage: &Stage) -> Report {
    println!("\n==== {}: {}", stage.name, stage.what);
    let start = Instant::now();
    let mut run = Run::new(workspace);
    let verdict = (stage.run)(&mut run).unwrap_or_else(|error| {
        eprintln!("{}: {error:#}", stage.name);
        run.tally.error = Some(format!("{error:#}"));
        Verdict::Failed
    });
    let time = start.elapsed();
    println!("==== {}: {verdict} in {:.1} s", stage.name, time.as_secs_f64());
    Report { name: stage.name, verdict, tally: run.tally, time }
}

fn parse_skips(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(": ")).map(|(name, why)| (name.into(), why.into())).collect()
}

/// Prints the closing table, what failed, the skips, and the line that CI reads; whether all is well.
///
/// Often nobody sees more of a run than these lines.
fn close(reports: Vec<Report>, expected: &BTreeMap<String, String>) -> bool {
    println!("\n{:<10} {:>8} {:>7} {:>7}  result", "stage", "seconds", "passed", "failed");
    let mut total = Tally::default();
    let mut count = 0;
    for Report { name, verdict, tally, time } in reports {
        let seconds = time.as_secs_f64();
        println!("{name:<10} {seconds:>8.1} {:>7} {:>7}  {verdict}", tally.passed, tally.failed);
        // A stage that fails without a failed test counts as one, so that the sum is 0 only if all is well.
        count += if verdict == Verdict::Failed { tally.failed.max(1) } else { 0 };
        let failures = failures_of(name, verdict, &tally);
        total.add(Tally { failures, ..tally });
    }
    for failure in &total.failures {
        println!("failed: {failure}");
    }
    let surprises = print_skips(&total.skips, expected);
    println!("{} passed, {} failed", total.passed, count + surprises);
    count + surprises == 0
}

/// What failed in a stage, each with the name of the stage in front.
fn failures_of(stage: &str, verdict: Verdict, tally: &Tally) -> Vec<Failure> {
    let named = |failure: &Failure| match failure.name.starts_with(&format!("{stage}/")) {
        true => failure.clone(),
        false => Failure { name: format!("{stage}: {}", failure.name), ..failure.clone() },
    };
    let mut failures: Vec<Failure> = tally.failures.iter().map(named).collect();
    if verdict == Verdict::Failed && failures.is_empty() {
        let reason = tally.error.as_ref().and_then(|error| error.lines().next()).map(str::to_owned);
        failures.push(Failure { name: stage.to_owned(), reason });
    }
    failures
}

/// Prints which tests skipped themselves; how many of them were not expected to.
fn print_skips(skips: &BTreeMap<String, String>, expected: &BTreeMap<String, String>) -> u64 {
    let mut surprises = 0;
    for (name, reason) in skips {
        let known = expected.contains_key(name);
        surprises += u64::from(!known);
        println!("skipped{}: {name}: {reason}", if known { "" } else { ", not expected" });
    }
    if surprises > 0 {
        println!(
            "{surprises} skipped tests are not in {EXPECTED_SKIPS}: run them here, or add them with a reason"
        );
    }
    surprises
}

#[cfg(test)]
mod test {
    use super::*;

    fn report(verdict: Verdict, passed: u64, failed: u64, skip: Option<&str>) -> Report {
        let skips = skip.into_iter().map(|name| (name.to_owned(), "no hardware".to_owned())).collect();
        Report {
            name: "test",
            verdict,
            tally: Tally { passed, failed, skips, ..Tally::default() },
            time: Duration::ZERO,
        }
    }

    #[test]
    fn all_is_well_only_if_every_stage_is() {
        let none = BTreeMap::new();
        assert!(close(
            vec![report(Verdict::Passed, 3, 0, None), report(Verdict::Nothing, 0, 0, None)],
            &none
        ));
        assert!(!close(vec![report(Verdict::Failed, 3, 1, None)], &none));
        assert!(
            !close(vec![report(Verdict::Failed, 0, 0, None)], &none),
            "a lint that failed without a test"
        );
    }

    #[test]
    fn what_failed_is_named_after_its_stage() {
        let failure = |name: &str, reason: Option<&str>| Failure {
            name: name.to_owned(),
            reason: reason.map(str::to_owned),
        };
        let shown = |stage, failures: Vec<Failure>, error: Option<&str>| {
            let tally = Tally { failures, error: error.map(str::to_owned), ..Tally::default() };
            failures_of(stage, Verdict::Failed, &tally).iter().map(Failure::to_string).collect::<Vec<_>>()
        };
        assert_eq!(shown("test", vec![failure("-p a --lib b", Some("c"))], None), ["test: -p a --lib b: c"]);
        assert_eq!(shown("lab", vec![failure("lab/demo-6.1", None)], None), ["lab/demo-6.1"]);
        assert_eq!(shown("clippy", Vec::new(), Some("error: unused\nmore")), ["clippy: error: unused"]);
        assert_eq!(shown("fmt", Vec::new(), None), ["fmt"]);
        let passed = Tally { error: Some("error, it says".into()), ..Tally::default() };
        assert_eq!(failures_of("test", Verdict::Passed, &passed), []);
    }

    #[test]
    fn a_skip_must_be_expected() {
        let expected = parse_skips("# why\ndax_maps: needs a DAX file system\n");
        assert!(close(vec![report(Verdict::Passed, 1, 0, Some("dax_maps"))], &expected));
        assert!(!close(vec![report(Verdict::Passed, 1, 0, Some("file_maps"))], &expected));
    }
}
