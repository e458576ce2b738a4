//! Each classic way to lose data is found in the toy engine, and the right engine is clean on all machines.

use crate::toy::{Bug, ToySubject};
use lode_pmem::Durability;
use lode_sim::{Budget, Cpu, Fate, Machine, Report, Setup, Stop, explore, replay};

const LINE: Machine = Machine { cpu: Cpu::X86, durability: Durability::Line };
const ARM: Machine = Machine { cpu: Cpu::Arm, durability: Durability::Byte };
const COMMIT: Machine = Machine { cpu: Cpu::X86, durability: Durability::Commit };

fn setup(machine: Machine, threads: usize, images: u64) -> Setup {
    let operations = 60 / threads as u64;
    let failing_drains = machine.durability == Durability::Commit;
    let budget = Budget { images, seconds: 60.0 };
    Setup { machine, threads, operations, budget, failing_drains, ..Setup::default() }
}

fn explored(bug: Option<Bug>, setup: &Setup) -> Report {
    let subject = ToySubject { bug };
    let report = explore(&subject, setup);
    println!("{bug:?} on {} with {} threads: {report}\n", setup.machine, setup.threads);
    if let Some(violation) = &report.violation {
        let again = violation.replay.to_string().parse().expect("a replay that was printed");
        assert_eq!(replay(&subject, setup, &again), Err(violation.fate.clone()), "the replay differs");
    }
    report
}

#[test]
fn each_bug_is_found() {
    for (bug, machine, threads) in [
        (Bug::NoChecksum, LINE, 1),
        (Bug::MissingDrain, LINE, 1),
        (Bug::CheckpointWithoutFlush, LINE, 1),
        (Bug::FlushWithoutDrain, LINE, 1),
        (Bug::HomeBeforeDrain, LINE, 1),
        (Bug::HomeBeforeDrain, COMMIT, 1),
        (Bug::SequenceNotInCrc, LINE, 1),
        (Bug::SequenceAsCrcSeed, ARM, 1),
        (Bug::ReuseBeforeCheckpoint, LINE, 1),
        (Bug::WrongThreadDrain, LINE, 2),
        (Bug::TornSector, COMMIT, 1),
        (Bug::FailedSyncBelieved, COMMIT, 1),
        (Bug::SharedBeforeDrain, LINE, 3),
    ] {
        let report = explored(Some(bug), &setup(machine, threads, 300_000));
        let violation = report.violation.unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert!(matches!(violation.fate, Fate::Cut(_)), "{violation}");
    }
}

#[test]
fn the_right_engine_is_clean() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let report = explored(None, &setup(machine, threads, 20_000));
            assert_eq!(report.violation, None);
            assert!(report.images >= 20_000 || machine.durability == Durability::Byte, "{report}");
            assert!(report.nested_images > 0, "{report}");
        }
    }
}

#[test]
fn a_lock_that_is_never_freed_is_a_deadlock() {
    let report = explored(Some(Bug::LockNeverFreed), &setup(LINE, 2, 1000));
    let violation = report.violation.expect("a violation");
    assert!(matches!(violation.fate, Fate::Stopped(Stop::Deadlock { .. })), "{violation}");
}

#[test]
fn one_seed_is_one_exploration() {
    for threads in [1, 3] {
        let setup = setup(LINE, threads, 5000);
        let counts =
            |report: Report| (report.images, report.checks, report.crash_points, report.nested_images);
        let first = counts(explored(None, &setup));
        assert_eq!(counts(explored(None, &setup)), first);
        let other = Setup { seed: 77, ..setup };
        assert_ne!(counts(explored(None, &other)), first);
    }
}

/// One build serves all bugs: they are planted at run time, in logical threads too.
#[cfg(lode_bugs)]
#[test]
fn planted_bugs_are_hunted_one_by_one() {
    use crate::toy::{HARMLESS, HOME_EARLY};
    use lode_layout::bug::Bug;
    use lode_sim::{Escape, hunt};
    static NEVER_ASKED: Bug = Bug::new("never-asked", "nothing");
    let bugs = [&HOME_EARLY, &HARMLESS, &NEVER_ASKED, &HOME_EARLY];
    for threads in [1, 2] {
        let mut hunted = Vec::new();
        let escapes = hunt(&bugs, |bug| {
            hunted.push(bug.name());
            explore(&ToySubject { bug: None }, &setup(LINE, threads, 2000))
        });
        assert_eq!(hunted, ["toy-home-early", "toy-harmless", "never-asked"]);
        let not_found = Escape::NotFound { name: "toy-harmless" };
        let not_reached = Escape::NotReached { name: "never-asked" };
        assert_eq!(escapes, [not_found, not_reached, Escape::NamedTwice { name: "toy-home-early" }]);
    }
    assert_eq!(explored(None, &setup(LINE, 1, 2000)).violation, None, "nothing stays planted");
}
