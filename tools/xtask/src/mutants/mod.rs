//! Mutants: lines of the shipped code that are replaced, one at a time, to see which test fails.
//!
//! ```text
//!   tools/xtask/mutants.toml --> list --+
//!   sources ---------------------+--> split: all mutants of a function in it --> copy: target/mutants/src
//!                                                                                |
//!   trial: each killer on sound code, then each mutant with its own  <-- build: one for each kind of killer
//! ```
//!
//! A mutant is killed if its killer fails, and survives if the killer finds no fault. A killer that fails on sound code
//! proves nothing, so each killer runs there first.

mod build;
mod copy;
pub(crate) mod list;
mod search;
pub(crate) mod split;
mod trial;

use crate::cargo::{self, Cargo};
use crate::failure::Failure;
use crate::flavor::Flavor;
use crate::log::Log;
use crate::tally::Tally;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use build::{Program, Programs};
use list::{Killer, LIST, Mutant};
use split::Functions;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use trial::{End, Trials, for_each};

/// Number of parts into which the list is divided for `make test`.
const PARTS: usize = 10;

/// The mutants to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All mutants of the list.
    All,
    /// The mutants whose position in the list, from 0, leaves this remainder when divided by ten.
    Tenth(usize),
    /// The mutants with these names.
    Named(Vec<String>),
}

impl Selection {
    /// Returns the selected mutants of the list.
    fn of<'a>(&self, mutants: &'a [Mutant]) -> Result<Vec<&'a Mutant>> {
        Ok(match self {
            Selection::All => mutants.iter().collect(),
            Selection::Tenth(part) => mutants.iter().skip(part % PARTS).step_by(PARTS).collect(),
            Selection::Named(names) => {
                let is = |name: &String| mutants.iter().find(|mutant| mutant.name == *name);
                if let Some(name) = names.iter().find(|name| is(name).is_none()) {
                    bail!("no mutant of {LIST} is called {name}");
                }
                names.iter().filter_map(is).collect()
            }
        })
    }
}

/// Runs the mutants of the selection, and prints the result of each. Killed mutants count as passed, survivors as
/// failed.
///
/// # Errors
/// Fails if a mutant does not match its source, the list is not valid, the copy does not build, or a killer can't be
/// run.
pub(crate) fn run(workspace: &Workspace, selection: &Selection, log: Log) -> Result<Tally> {
    let mutants = list::read(&workspace.root)?;
    let chosen = selection.of(&mutants)?;
    let killers: BTreeSet<Killer> = chosen.iter().filter_map(|mutant| mutant.killer()).collect();
    let programs = build(workspace, &mutants, &killers, log)?;
    let trials = Trials::new(&programs, workspace.target.join("mutants/output"))?;
    for_each(killers.iter().collect(), |killer| trials.on_sound(killer).map(drop))?;
    let report = Mutex::new(Report::default());
    for_each(chosen, |mutant| {
        let result = try_mutant(&trials, mutant)?;
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        report.add(workspace, mutant, result, log);
        Ok(())
    })?;
    let report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.print_summary(log);
    Ok(report.tally)
}

/// Searches killers of the mutants of the selection, and prints them as lines for the list. Returns true if each mutant
/// has one.
///
/// # Errors
/// As [`run`].
pub(crate) fn search(workspace: &Workspace, selection: &Selection) -> Result<bool> {
    let mutants = list::read(&workspace.root)?;
    let mut chosen = selection.of(&mutants)?;
    let is_for_explorer = |mutant: &Mutant| match mutant.killer() {
        None => mutant.equivalent.is_none(),
        Some(killer) => matches!(killer, Killer::Crash(_)),
    };
    chosen.retain(|mutant| is_for_explorer(mutant));
    let any = Killer::Crash(String::new());
    let programs = build(workspace, &mutants, &BTreeSet::from([any]), Log::default())?;
    let trials = Trials::new(&programs, workspace.target.join("mutants/output"))?;
    search::run(&chosen, &trials)
}

/// Builds the tests that `words` select, in the copy. No mutant is chosen in them unless their environment says so.
///
/// # Errors
/// Fails if a mutant does not match its source, or the copy does not build.
pub(crate) fn build_tests(
    workspace: &Workspace,
    flavor: Flavor,
    words: &str,
    log: Log,
) -> Result<Vec<cargo::Program>> {
    let copy = workspace.copy_in(&copy(workspace, &list::read(&workspace.root)?)?)?;
    Cargo::stable(&copy, words)
        .arguments(build::options(workspace, flavor))
        .build(&copy, log)
        .context("the copy with the mutants does not build")
}

/// Makes the copy. Returns its folder.
fn copy(workspace: &Workspace, mutants: &[Mutant]) -> Result<PathBuf> {
    // Of two stages that need it, the second one finds it made.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = workspace.target.join("mutants/src");
    let packages: Vec<&str> = workspace.packages.iter().map(|package| package.name.as_str()).collect();
    copy::make(&workspace.root, &folder, mutants, &packages)?;
    Ok(folder)
}

/// Makes the copy, and builds in it the programs that `killers` run.
fn build(
    workspace: &Workspace,
    mutants: &[Mutant],
    killers: &BTreeSet<Killer>,
    log: Log,
) -> Result<Programs> {
    let copy = copy(workspace, mutants)?;
    let mut programs = Programs::default();
    for program in killers.iter().map(Program::of).collect::<BTreeSet<_>>() {
        programs.build(workspace, &copy, &program, log)?;
    }
    Ok(programs)
}

/// Result of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MutantResult {
    Killed(Duration),
    Hung(Duration),
    Survived(Duration),
    Equivalent,
    /// The killer fails on sound code, or the list names none.
    Unproven(String),
}

fn try_mutant(trials: &Trials<'_>, mutant: &Mutant) -> Result<MutantResult> {
    if mutant.equivalent.is_some() {
        return Ok(MutantResult::Equivalent);
    }
    let Some(killer) = mutant.killer() else { return Ok(MutantResult::Unproven("it has no killer".into())) };
    if !trials.on_sound(&killer)?.0.survived() {
        let output = trials.folder().display();
        return Ok(MutantResult::Unproven(format!("its killer fails on sound code, see {output}: {killer}")));
    }
    let (end, time) = trials.on_mutant(&killer, &mutant.name)?;
    Ok(match end {
        End::Hung(_) => MutantResult::Hung(time),
        End::Exit(status) if status.success() => MutantResult::Survived(time),
        End::Exit(_) => MutantResult::Killed(time),
    })
}

/// The counts of a run.
#[derive(Debug, Default)]
struct Report {
    tally: Tally,
    hung: u64,
    equivalent: u64,
}

impl Report {
    fn add(&mut self, workspace: &Workspace, mutant: &Mutant, result: MutantResult, log: Log) {
        let (what, time) = match &result {
            MutantResult::Killed(time) => ("killed", Some(time)),
            MutantResult::Hung(time) => ("hung", Some(time)),
            MutantResult::Survived(time) => ("SURVIVED", Some(time)),
            MutantResult::Equivalent => ("equivalent", None),
            MutantResult::Unproven(_) => ("UNPROVEN", None),
        };
        let time = time.map_or(String::new(), |time| format!("{:.1} s", time.as_secs_f64()));
        log.line(&format!("{what:<10} {time:>7}  {}", mutant.name));
        match result {
            MutantResult::Killed(_) => self.tally.passed += 1,
            MutantResult::Hung(_) => (self.tally.passed, self.hung) = (self.tally.passed + 1, self.hung + 1),
            MutantResult::Equivalent => self.equivalent += 1,
            MutantResult::Survived(_) => self.fail(workspace, mutant, "survived"),
            MutantResult::Unproven(why) => self.fail(workspace, mutant, &why),
        }
    }

    fn fail(&mut self, workspace: &Workspace, mutant: &Mutant, why: &str) {
        let text = fs::read_to_string(workspace.root.join(&mutant.file)).unwrap_or_default();
        let position = Functions::parse(&text).and_then(|functions| functions.position(mutant));
        let line = position.map_or(0, |position| position.number);
        let Mutant { name, file, line: was, mutated, .. } = mutant;
        let reason = format!("{file}:{line}: `{was}` as `{mutated}` {why}");
        self.tally.failed += 1;
        self.tally.failures.push(Failure { name: format!("mutants/{name}"), reason: Some(reason) });
    }

    fn print_summary(&self, log: Log) {
        for failure in &self.tally.failures {
            log.line(&failure.to_string());
            let name = failure.name.rsplit('/').next().unwrap_or_default();
            log.line(&format!("    to repeat it: cargo xtask mutants {name}"));
        }
        let Report { tally, hung, equivalent } = self;
        let (killed, survived) = (tally.passed, tally.failed);
        log.line(&format!(
            "mutants: {killed} killed ({hung} of them hung), {survived} survived, {equivalent} equivalent"
        ));
    }
}
