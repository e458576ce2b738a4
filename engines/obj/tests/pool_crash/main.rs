//! A power cut leaves what transactions, publications and persists had made durable in an open pool, and no lost space.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod small_pool;
mod subject;

use lode_sim::{Machine, Setup, explore, explore_poison, scaled_images};
use lode_testing::seed;
use subject::PoolSubject;

#[test]
fn open_pools_survive_power_cuts() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            for starts_closed in [false, true] {
                let subject = PoolSubject::new(machine.durability, starts_closed);
                let images = scaled_images(40);
                let setup = Setup { seed: seed(1), images, ..Setup::shared(machine, threads, 24) };
                let report = explore(&subject, &setup);
                println!("{subject:?}, {machine}, {threads} threads: {report}");
                assert!(report.violation.is_none(), "{}", report.violation.unwrap());
            }
        }
    }
}

/// The program flushes some of its stores by itself.
#[test]
fn careful_pools_survive_power_cuts() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let subject = PoolSubject::new(machine.durability, true).careful();
            let setup =
                Setup { seed: seed(4), images: scaled_images(40), ..Setup::shared(machine, threads, 24) };
            let report = explore(&subject, &setup);
            println!("{machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.unwrap());
        }
    }
}

/// The heap becomes longer when it is full: a power cut leaves the old size or the new one.
#[test]
fn growing_pools_survive_power_cuts() {
    for machine in Machine::ALL {
        for threads in 1..=2 {
            let subject = PoolSubject::new(machine.durability, true).growing();
            let setup =
                Setup { seed: seed(2), images: scaled_images(40), ..Setup::shared(machine, threads, 12) };
            let report = explore(&subject, &setup);
            println!("{machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.unwrap());
        }
    }
}

/// A replica alone is a pool that a power cut left, whatever the master has.
#[test]
fn replicas_alone_survive_power_cuts() {
    for machine in Machine::ALL {
        // The master's memory takes no part in the schedule, so one thread has the pool.
        let setup = Setup { seed: seed(3), images: scaled_images(60), ..Setup::shared(machine, 1, 24) };
        let report = explore(&PoolSubject::replica(), &setup);
        println!("{machine}: {report}");
        assert!(report.violation.is_none(), "{}", report.violation.unwrap());
    }
}

/// A line of a header, of the log, of an object or of a spill is lost while threads use the pool.
#[test]
fn lost_line_is_reported_and_loses_nothing_else() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let fast = PoolSubject::new(machine.durability, true);
            for subject in [fast, fast.careful()] {
                let images = scaled_images(10);
                let setup =
                    Setup { machine, threads, operations: 8, seed: seed(1), images, ..Setup::default() };
                let report = explore_poison(&subject, &setup);
                println!("{subject:?}, {machine}, {threads} threads: {report}");
                assert!(report.violation.is_none(), "{}", report.violation.unwrap());
            }
        }
    }
}

/// The explorer finds every seeded bug of replicas. Built with `--cfg lode_bugs`.
#[cfg(lode_bugs)]
#[test]
fn every_seeded_bug_of_replicas_is_found() {
    for bug in &lode_pmdk::bugs::ALL {
        let setup =
            Setup { images: 2_000, nested_one_in: 4, seed: 1000, ..Setup::shared(Machine::ALL[0], 1, 40) };
        match lode_sim::find_seeded_bug(bug, &PoolSubject::replica(), &setup, 40) {
            Ok(violation) => println!("{bug}: {violation}"),
            Err(error) => panic!("{bug}: {error}"),
        }
    }
}

/// The explorer finds every seeded bug. Built with `--cfg lode_bugs`.
#[cfg(lode_bugs)]
#[test]
fn every_seeded_bug_is_found() {
    for bug in &lode_obj::bugs::OF_POOL {
        let machine = Machine::ALL[0];
        let subject = PoolSubject::new(machine.durability, true);
        let grows = std::ptr::eq(*bug, &raw const lode_obj::bugs::CHUNKS_BEFORE_SIZE);
        let subject = if grows { subject.growing() } else { subject };
        let setup = Setup { images: 2_000, nested_one_in: 4, seed: 1000, ..Setup::shared(machine, 2, 40) };
        match lode_sim::find_seeded_bug(bug, &subject, &setup, 40) {
            Ok(violation) => println!("{bug}: {violation}"),
            Err(error) => panic!("{bug}: {error}"),
        }
    }
}
