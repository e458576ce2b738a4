//! The stages of `make test`, run two at a time, and the tables after the last one.

use crate::failure::Failure;
use crate::log::Log;
use crate::stages::{Run, STAGES, Stage, Verdict};
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// The tests that may skip themselves on a machine without special hardware, `NAME: why` on each line.
const EXPECTED_SKIPS: &str = "tools/xtask/expected-skips.txt";
/// Number of stages that run at a time. While one of them waits, or uses a single core, the other one continues.
const PARALLEL_STAGES: usize = 2;
/// Number of the slowest tests to print.
const LONGEST: usize = 10;

/// Result of a stage.
struct Report {
    stage: &'static Stage,
    verdict: Verdict,
    tally: Tally,
    time: Duration,
}

/// Prints the list of stages.
pub(crate) fn print_list() -> bool {
    for stage in STAGES {
        println!("{:<10} {:>3} min  {}", stage.name, stage.budget_min, stage.what);
    }
    true
}

/// Runs the stages with these names, or all. Returns true if all passed. With `budget`, a stage fails if it takes
/// longer than it may.
pub(crate) fn run(workspace: &Workspace, names: &[String], budget: bool) -> Result<bool> {
    if let Some(name) = names.iter().find(|name| STAGES.iter().all(|stage| stage.name != **name)) {
        bail!("no stage is called {name}; `cargo xtask ci --list` prints them");
    }
    let is_chosen = |stage: &&Stage| names.is_empty() || names.iter().any(|name| name == stage.name);
    let chosen: Vec<&'static Stage> = STAGES.iter().filter(is_chosen).collect();
    let begin = Instant::now();
    let reports = run_all(workspace, &chosen);
    let expected = fs::read_to_string(workspace.root.join(EXPECTED_SKIPS)).context(EXPECTED_SKIPS)?;
    println!("\n{:.0} s in all", begin.elapsed().as_secs_f64());
    Ok(print_report(reports, &parse_skips(&expected), budget))
}

/// Runs the stages in their order, [`PARALLEL_STAGES`] at a time.
fn run_all(workspace: &Workspace, chosen: &[&'static Stage]) -> Vec<Report> {
    let waiting = Mutex::new(chosen.iter());
    let reports = Mutex::new(Vec::new());
    let workers = PARALLEL_STAGES.min(chosen.len());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(stage) = waiting.lock().expect("no panic while it is held").next() else {
                        return;
                    };
                    let report = run_stage(workspace, stage, workers > 1);
                    reports.lock().expect("no panic while it is held").push(report);
                }
            });
        }
    });
    let mut reports = reports.into_inner().expect("all lanes have ended");
    let place = |report: &Report| chosen.iter().position(|stage| stage.name == report.stage.name);
    reports.sort_by_key(place);
    reports
}

fn run_stage(workspace: &Workspace, stage: &'static Stage, has_others: bool) -> Report {
    let log = Log { stage: has_others.then_some(stage.name) };
    log.line(&format!("==== {}: {}", stage.name, stage.what));
    let start = Instant::now();
    let mut run = Run::new(workspace, log);
    let verdict = (stage.run)(&mut run).unwrap_or_else(|error| {
        log.line(&format!("{}: {error:#}", stage.name));
        run.tally.error = Some(format!("{error:#}"));
        Verdict::Failed
    });
    let time = start.elapsed();
    log.line(&format!("==== {}: {verdict} in {:.1} s", stage.name, time.as_secs_f64()));
    Report { stage, verdict, tally: run.tally, time }
}

fn parse_skips(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(": ")).map(|(name, why)| (name.into(), why.into())).collect()
}

/// Prints the closing tables, the failures, the skips, and the line that CI reads. Returns true if all stages passed.
///
/// Readers of a run often read only these lines.
fn print_report(reports: Vec<Report>, expected: &BTreeMap<String, String>, budget: bool) -> bool {
    println!("\n{:<10} {:>8} {:>8} {:>7} {:>7}  result", "stage", "seconds", "budget", "passed", "failed");
    let mut total = Tally::default();
    let mut count = 0;
    for Report { stage, verdict, tally, time } in reports {
        let (seconds, allowed) = (time.as_secs_f64(), stage.budget().as_secs());
        let is_late = time > stage.budget();
        let late = if is_late { ", over its budget" } else { "" };
        println!(
            "{:<10} {seconds:>8.1} {allowed:>8} {:>7} {:>7}  {verdict}{late}",
            stage.name, tally.passed, tally.failed
        );
        // A stage that fails without a failed test counts as one, so the sum is 0 only if all stages passed.
        count += if verdict == Verdict::Failed { tally.failed.max(1) } else { 0 };
        let mut failures = failures_of(stage.name, verdict, &tally);
        if budget && is_late {
            count += 1;
            let reason = Some(format!("took {seconds:.0} s, and may take {allowed}"));
            failures.push(Failure { name: stage.name.to_owned(), reason });
        }
        total.add(Tally { failures, ..tally });
    }
    print_longest(&mut total.times);
    if total.images > 0 {
        println!("\n{} distinct images of power cuts were recovered from", total.images);
    }
    for failure in &total.failures {
        println!("failed: {failure}");
    }
    let unexpected = print_skips(&total.skips, expected);
    println!("{} passed, {} failed", total.passed, count + unexpected);
    count + unexpected == 0
}

fn print_longest(times: &mut [(Duration, String)]) {
    times.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    if !times.is_empty() {
        println!("\nthe longest tests, in seconds:");
    }
    for (time, name) in times.iter().take(LONGEST) {
        println!("{:>8.1}  {name}", time.as_secs_f64());
    }
}

/// Returns the failures of a stage, each with the name of the stage in front.
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

/// Prints the tests that skipped themselves. Returns the number of those that were not expected to.
fn print_skips(skips: &BTreeMap<String, String>, expected: &BTreeMap<String, String>) -> u64 {
    let mut unexpected = 0;
    for (name, reason) in skips {
        let known = expected.contains_key(name);
        unexpected += u64::from(!known);
        println!("skipped{}: {name}: {reason}", if known { "" } else { ", not expected" });
    }
    if unexpected > 0 {
        println!(
            "{unexpected} skipped tests are not in {EXPECTED_SKIPS}: run them here, or add them with a reason"
        );
    }
    unexpected
}

#[cfg(test)]
mod test {
    use super::*;

    fn report(verdict: Verdict, passed: u64, failed: u64, skip: Option<&str>) -> Report {
        let skips = skip.into_iter().map(|name| (name.to_owned(), "no hardware".to_owned())).collect();
        let tally = Tally { passed, failed, skips, ..Tally::default() };
        Report { stage: &STAGES[0], verdict, tally, time: Duration::ZERO }
    }

    #[test]
    fn run_passes_only_if_every_stage_passes() {
        let none = BTreeMap::new();
        assert!(print_report(
            vec![report(Verdict::Passed, 3, 0, None), report(Verdict::Nothing, 0, 0, None)],
            &none,
            true
        ));
        assert!(!print_report(vec![report(Verdict::Failed, 3, 1, None)], &none, false));
        assert!(
            !print_report(vec![report(Verdict::Failed, 0, 0, None)], &none, false),
            "a lint that failed without a test"
        );
    }

    #[test]
    fn late_stage_fails_only_with_budget_option() {
        let late = || Report { time: STAGES[0].budget() * 2, ..report(Verdict::Passed, 3, 0, None) };
        assert!(print_report(vec![late()], &BTreeMap::new(), false));
        assert!(!print_report(vec![late()], &BTreeMap::new(), true));
    }

    #[test]
    fn failures_are_named_after_their_stage() {
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
    fn unexpected_skip_fails_run() {
        let expected = parse_skips("# why\ndax_maps: needs a DAX file system\n");
        assert!(print_report(vec![report(Verdict::Passed, 1, 0, Some("dax_maps"))], &expected, false));
        assert!(!print_report(vec![report(Verdict::Passed, 1, 0, Some("file_maps"))], &expected, false));
    }
}
