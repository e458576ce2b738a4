//! An engine that handles a lost line wrongly is found, and one that handles it right is clean.

use lode_layout::{LINE, PoolOffset, WORD};
use lode_pmem::{Fault, FaultScope, Medium};
use lode_sim::oracle::{Access, RegisterMismatch, Registers};
use lode_sim::{
    Actor, Failure, HistoryPrefix, Machine, PoisonReport, RecoveryFailure, RunAbort, Setup, SimMedium,
    Subject, explore_poison,
};
use std::sync::Arc;

const REGISTERS: u64 = 8;

/// A wrong reaction to a lost line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    /// Goes on with the zeros that it loaded.
    Believes,
    Panics,
    /// Returns the error, and leaves the fault to the thread.
    Leaves,
    /// Returns the error, and clears the next line.
    Tramples,
}

/// Registers, each in a line of its own. An operation stores the successor of one in another.
struct Cells {
    bug: Option<Bug>,
}

#[derive(Clone, Debug, Default)]
struct Step {
    reads: Vec<(u64, u64)>,
    writes: Vec<(u64, u64)>,
}

fn at(register: u64) -> PoolOffset {
    PoolOffset::new(register % REGISTERS * LINE)
}

impl Cells {
    fn load(&self, medium: &SimMedium, register: u64) -> Result<u64, Fault> {
        let scope = FaultScope::open();
        let value = scope.memory(medium.memory()).load8(at(register));
        match self.bug {
            Some(Bug::Believes) => {
                scope.clear();
                return Ok(value);
            }
            Some(Bug::Panics) => assert!(!scope.has_fault(), "a lost line"),
            Some(Bug::Tramples) if scope.has_fault() => medium.store8(at(register + 1), 0),
            _ => {}
        }
        let loaded = scope.close().map(|()| value);
        if loaded.is_err() && self.bug == Some(Bug::Leaves) {
            medium.store8(at(register), 0);
        }
        loaded
    }

    fn step(&self, medium: &SimMedium, from: u64, to: u64, note: impl Fn(Step)) -> Result<(), Fault> {
        let value = self.load(medium, from)?;
        note(Step { reads: vec![(from, value)], writes: vec![(to, value + 1)] });
        FaultScope::run(|| {
            medium.store8(at(to), value + 1);
            medium.flush(at(to), WORD);
        })?;
        medium.drain().expect("a drain that was not made to fail");
        Ok(())
    }
}

impl Subject for Cells {
    type Engine = Arc<SimMedium>;
    type Operation = Step;
    type Contents = Vec<(u64, u64)>;
    type Legal = Registers<u64, u64>;
    type Mismatch = RegisterMismatch<u64, u64>;
    type Error = Fault;

    fn size(&self) -> u64 {
        4096
    }

    fn format(&self, _medium: Arc<SimMedium>) -> Result<(), Fault> {
        Ok(())
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Arc<SimMedium>, Fault> {
        Ok(medium)
    }

    fn run(&self, medium: &Arc<SimMedium>, actor: &mut Actor<'_, Step>) {
        for _ in 0..actor.operations {
            let (from, to) = (actor.rng.u64(..REGISTERS), actor.rng.u64(..REGISTERS));
            let ticket = actor.begin(Step::default());
            match self.step(medium, from, to, |step| actor.revise(ticket, step)) {
                Ok(()) => actor.returned(ticket),
                Err(_) => actor.refused(ticket),
            }
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Self::Contents, Fault> {
        let load = |register| Ok((register, self.load(&medium, register)?));
        (0..REGISTERS).map(load).filter(|loaded| !matches!(loaded, Ok((_, 0)))).collect()
    }

    fn legal(&self, history: &HistoryPrefix<Step>) -> Self::Legal {
        Registers::new(&[], history, |step| Access {
            reads: step
                .reads
                .iter()
                .map(|(register, value)| (*register, (*value != 0).then_some(*value)))
                .collect(),
            writes: step.writes.iter().map(|(register, value)| (*register, Some(*value))).collect(),
        })
    }

    fn check(&self, legal: &Self::Legal, contents: &Self::Contents) -> Result<(), Self::Mismatch> {
        legal.check(contents)
    }
}

fn explored(bug: Option<Bug>) -> PoisonReport {
    let report =
        explore_poison(&Cells { bug }, &Setup { machine: Machine::ALL[0], images: 1000, ..Setup::default() });
    println!("{bug:?}: {report}");
    report
}

#[test]
fn engine_reporting_lost_lines_is_clean() {
    let report = explored(None);
    assert_eq!(report.violation, None);
    assert!(report.poisoned_runs > 100 && report.refused == 1000, "{report}");
}

#[test]
fn each_wrong_poison_handling_is_found() {
    for bug in [Bug::Believes, Bug::Panics, Bug::Leaves, Bug::Tramples] {
        let report = explored(Some(bug));
        let violation = report.violation.unwrap_or_else(|| panic!("{bug:?} was not found"));
        let is_right = match bug {
            Bug::Believes | Bug::Tramples => {
                matches!(
                    violation.failure,
                    Failure::Poisoned { failure: RecoveryFailure::Illegal { .. }, .. }
                )
            }
            Bug::Panics => matches!(violation.failure, Failure::Stopped(RunAbort::Panic { .. })),
            Bug::Leaves => matches!(violation.failure, Failure::Unusable { .. }),
        };
        assert!(is_right, "{bug:?}: {violation}");
    }
}
