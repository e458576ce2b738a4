//! Exploration of poison: a line is lost at some load of a run. Each operation must report it or be right, and nothing
//! else may be lost.

use crate::explore::describe_history;
use crate::history::HistoryPrefix;
use crate::image::{RecoveryFailure, recover, recover_twice};
use crate::model::Model;
use crate::poison::Poison;
use crate::report::{Failure, Replay, Violation};
use crate::run::{Run, run_poisoned};
use crate::{Machine, Setup, SimMedium, Subject};
use lode_layout::{LINE, PoolOffset, WORD};
use lode_pmem::Medium;
use std::fmt;
use std::sync::Arc;

/// One in this many runs may lose its line while the engine opens.
const OPENING_ONE_IN: u8 = 8;

/// The result of an exploration of poison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoisonReport {
    /// Number of runs, each with a seed of its own.
    pub runs: u64,
    /// Number of runs in which a line was lost.
    pub poisoned_runs: u64,
    /// Number of recoveries from an image with a lost line that returned an error.
    pub refused: u64,
    /// Number of recoveries from an image with a lost line that returned a legal content.
    pub recovered: u64,
    /// The first violation. The exploration ends there. Its replay names no image: an exploration with its seed repeats
    /// it.
    pub violation: Option<Violation>,
}

impl fmt::Display for PoisonReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoisonReport { runs, poisoned_runs, refused, recovered, violation } = self;
        write!(
            f,
            "{runs} runs, {poisoned_runs} of them lost a line; recovery refused {refused} images and "
        )?;
        write!(f, "got along with {recovered}: ")?;
        match violation {
            None => f.write_str("no violation"),
            Some(violation) => write!(f, "VIOLATION\n{violation}"),
        }
    }
}

/// Runs the workload of `subject` again and again, and loses a line at a load or store that the seed of the run
/// chooses: a store loads its line first. The line stays lost: each access to it faults. Then recovers from what is on
/// the medium after the run, and from what is there if power is cut, too. A violation is
///
/// - a panic of an operation or of a recovery, or a fault that none of them reports;
/// - a content that is not legal. With the lost line a recovery may also return an error. Once the line is as it was,
///   recovery must succeed: whatever lies elsewhere is still there.
///
/// Ends after `setup.images` recoveries, or after `setup.images` runs if few of them lose a line.
///
/// # Panics
/// As [`explore`](crate::explore()).
pub fn explore_poison<S: Subject>(subject: &S, setup: &Setup) -> PoisonReport {
    let mut report = PoisonReport::default();
    // A workload with few accesses would otherwise run for ever without losing a line.
    let is_within = |report: &PoisonReport| {
        report.refused + report.recovered < setup.images && report.runs < setup.images
    };
    while is_within(&report) && report.violation.is_none() {
        let seed = setup.seed.wrapping_add(report.runs);
        report.runs += 1;
        report.violation = explore_run(subject, setup, seed, &mut report).err().map(|found| *found);
    }
    report
}

/// Runs the workload with a seed and a lost line, and judges what is left.
fn explore_run<S: Subject>(
    subject: &S,
    setup: &Setup,
    seed: u64,
    report: &mut PoisonReport,
) -> Result<(), Box<Violation>> {
    let violation = |failure, history| {
        let replay = Replay { seed, operations: setup.operations, killed_at: None, cuts: Vec::new() };
        Box::new(Violation { replay, failure, history })
    };
    let stopped = |failure| violation(failure, String::new());
    let mut rng = fastrand::Rng::with_seed(seed);
    let counting = Arc::new(Poison::never());
    run_poisoned(subject, setup, seed, &counting).map_err(stopped)?;
    // Opening a pool may take more accesses than all operations of a run.
    let first = if rng.u8(..OPENING_ONE_IN) == 0 { 0 } else { counting.opened() };
    let poison = Arc::new(Poison::after(rng.u64(first..=counting.accesses()), rng.u64(..)));
    let run = run_poisoned(subject, setup, seed, &poison).map_err(stopped)?;
    let Some(line) = poison.line() else { return Ok(()) };
    report.poisoned_runs += 1;
    let mut history = HistoryPrefix::start();
    history.advance(&run.entries, run.events.len());
    let legal = subject.legal(&history);
    for image in images(setup.machine, &run) {
        check_recovery(subject, setup.machine, &image, line, &legal, report).map_err(|failure| {
            let failure = Failure::Poisoned { at: PoolOffset::new(line * LINE), failure };
            violation(failure, describe_history(&history))
        })?;
    }
    Ok(())
}

/// Returns the content that the run left, and the oldest one that a power cut then leaves.
fn images<T>(machine: Machine, run: &Run<T>) -> [Vec<u64>; 2] {
    let mut left = run.start.clone();
    let mut model = Model::new(machine, &run.start);
    for event in &run.events {
        model.apply(*event);
        if let Some((word, value)) = event.word() {
            left[word as usize] = value;
        }
    }
    model.enumerate();
    let units = run.start.len() as u64 * WORD / machine.unit();
    let mut oldest: Vec<Vec<u64>> = (0..units as u32).map(|unit| model.base(unit).to_vec()).collect();
    for unit in model.dirty() {
        oldest[*unit as usize] = model.versions(*unit).words(0).to_vec();
    }
    [left, oldest.concat()]
}

fn check_recovery<S: Subject>(
    subject: &S,
    machine: Machine,
    image: &[u64],
    line: u64,
    legal: &S::Legal,
    report: &mut PoisonReport,
) -> Result<(), RecoveryFailure> {
    let medium = match SimMedium::with_poison(subject.size(), machine, Arc::new(Poison::of(line))) {
        Ok(medium) => Arc::new(medium),
        Err(error) => panic!("no memory for a medium: {error}"),
    };
    for (word, value) in (0u64..).zip(image) {
        medium.memory().store8(PoolOffset::new(word * WORD), *value);
    }
    medium.arm_poison(true);
    match recover(&medium, subject, 1) {
        Ok(contents) => {
            subject
                .check(legal, &contents)
                .map_err(|mismatch| RecoveryFailure::Illegal { mismatch: mismatch.to_string() })?;
            report.recovered += 1;
        }
        Err(RecoveryFailure::Refused { .. }) => report.refused += 1,
        Err(failure) => return Err(failure),
    }
    medium.arm_poison(false);
    recover_twice(&medium, subject, legal)
}
