//! Each classic way to lose data is found in the toy engine, and the right engine is clean on all machines.

use crate::toy::{Bug, ToySubject};
use lode_pmem::Durability;
use lode_sim::{Cpu, Failure, Machine, Report, RunAbort, Setup, explore, replay};

const LINE: Machine = Machine { cpu: Cpu::X86, durability: Durability::Line };
const ARM: Machine = Machine { cpu: Cpu::Arm, durability: Durability::Byte };
const COMMIT: Machine = Machine { cpu: Cpu::X86, durability: Durability::Commit };

fn setup(machine: Machine, threads: usize, images: u64) -> Setup {
    let operations = 60 / threads as u64;
    let failing_drains = machine.durability == Durability::Commit;
    Setup { machine, threads, operations, images, failing_drains, ..Setup::default() }
}

fn explored(bug: Option<Bug>, setup: &Setup) -> Report {
    let subject = ToySubject { bug };
    let report = explore(&subject, setup);
    println!("{bug:?} on {} with {} threads: {report}\n", setup.machine, setup.threads);
    if let Some(violation) = &report.violation {
        let again = violation.replay.to_string().parse().expect("a replay that was printed");
        assert_eq!(replay(&subject, setup, &again), Err(violation.failure.clone()), "the replay differs");
    }
    report
}

#[test]
fn each_toy_bug_is_found() {
    for (bug, machine, threads) in [
        (Bug::NoChecksum, LINE, 1),
        (Bug::MissingDrain, LINE, 1),
        (Bug::CheckpointWithoutFlush, LINE, 1),
        (Bug::FlushWithoutDrain, LINE, 1),
        (Bug::WriteBackBeforeDrain, LINE, 1),
        (Bug::WriteBackBeforeDrain, COMMIT, 1),
        (Bug::SequenceNotInCrc, LINE, 1),
        (Bug::SequenceAsCrcSeed, ARM, 1),
        (Bug::ReuseBeforeCheckpoint, LINE, 1),
        (Bug::WrongThreadDrain, LINE, 2),
        (Bug::TornSector, COMMIT, 1),
        (Bug::FailedSyncIgnored, COMMIT, 1),
        (Bug::SharedBeforeDrain, LINE, 3),
    ] {
        let report = explored(Some(bug), &setup(machine, threads, 300_000));
        let violation = report.violation.unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert!(matches!(violation.failure, Failure::PowerCut(_)), "{violation}");
    }
}

#[test]
fn correct_engine_is_clean() {
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
fn lock_never_released_is_deadlock() {
    let report = explored(Some(Bug::LockNeverFreed), &setup(LINE, 2, 1000));
    let violation = report.violation.expect("a violation");
    assert!(matches!(violation.failure, Failure::Stopped(RunAbort::Deadlock { .. })), "{violation}");
}

#[test]
fn exploration_is_deterministic() {
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
fn each_seeded_bug_is_searched_alone() {
    use crate::toy::{HARMLESS, WRITE_BACK_EARLY};
    use lode_layout::bug::Bug;
    use lode_sim::{UndetectedBug, find_seeded_bug};
    static NEVER_ASKED: Bug = Bug::new("never-asked", "nothing");
    for threads in [1, 2] {
        let search =
            |bug| find_seeded_bug(bug, &ToySubject { bug: None }, &setup(LINE, threads, 2000), 1).err();
        assert_eq!(search(&WRITE_BACK_EARLY), None);
        assert_eq!(search(&HARMLESS), Some(UndetectedBug::NotFound { name: "toy-harmless" }));
        assert_eq!(search(&NEVER_ASKED), Some(UndetectedBug::NotReached { name: "never-asked" }));
    }
    assert_eq!(explored(None, &setup(LINE, 1, 2000)).violation, None, "nothing stays planted");
}
