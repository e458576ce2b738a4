//! No power cut loses what a transaction promised.

mod containers;
mod migrating;

use containers::ContainersSubject;
use lode_heap::explore::{GrowingSubject, HeapSubject, IsolationSubject, LaterSubject, LogSubject};
use lode_sim::{Machine, Report, Setup, Subject, explore, explore_poison, scaled_images};
use lode_testing::seed;
use migrating::MigratingSubject;

fn clean(name: &str, subject: &impl Subject, setup: Setup) {
    let report: Report = explore(subject, &setup);
    println!("{name}, {}, {} threads: {report}", setup.machine, setup.threads);
    assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
}

#[test]
fn log_survives_power_cuts() {
    // One of them is no power of two, as in most pools.
    for (size, log_len) in [(0x10000, 0x4000), (0x10000, 0x5000), (0x10000, 0x8000)] {
        for machine in Machine::ALL {
            for threads in 1..=3 {
                let images = scaled_images(4_000);
                let setup = Setup { seed: seed(1), images, ..Setup::shared(machine, threads, 150) };
                clean("log", &LogSubject { size, log_len }, setup);
            }
        }
    }
}

#[test]
fn heap_survives_power_cuts() {
    for (size, sizes, count) in [(0x30000, 5, 4_000), (0x60000, 6, 1_000)] {
        for machine in Machine::ALL {
            for threads in 1..=3 {
                let images = scaled_images(count);
                let setup = Setup { seed: seed(1), images, ..Setup::shared(machine, threads, 120) };
                clean("heap", &HeapSubject { size, sizes, later: false }, setup);
            }
        }
    }
}

/// The pool of the heap grows while transactions run, and its log moves.
#[test]
fn growing_heap_survives_power_cuts() {
    for (size, sizes) in [(0x60000, 5), (0x38000, 6)] {
        let heap = HeapSubject { size, sizes, later: false };
        for machine in Machine::ALL {
            for threads in 1..=3 {
                let images = scaled_images(1_000);
                let setup = Setup { seed: seed(1), images, ..Setup::shared(machine, threads, 120) };
                clean("growing heap", &GrowingSubject { heap, size_max: 0x90000 }, setup);
            }
        }
    }
}

#[test]
fn transactions_are_serializable() {
    for machine in Machine::ALL {
        for threads in 2..=3 {
            // With the budget of soak, 10, a million images in each round, and others in the next.
            let (images, seed) = (scaled_images(10_000), seed(1));
            let setup = Setup { seed, images, ..Setup::shared(machine, threads, 120) };
            clean("reads", &IsolationSubject { size: 0x30000 }, setup);
        }
    }
}

/// Some transactions return before their sync: what is there after a power cut has all that came before it, and all of
/// which it was said that it is durable.
#[test]
fn later_transactions_leave_a_prefix() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let is_commit = machine.durability == lode_pmem::Durability::Commit;
            // At the others they are ordinary transactions.
            let images = scaled_images(if is_commit { 10_000 } else { 1_000 });
            let (operations, seed) = (120 / threads as u64, seed(1));
            let setup = Setup {
                machine,
                threads,
                operations,
                seed,
                images,
                failing_drains: is_commit,
                ..Setup::default()
            };
            clean("later", &LaterSubject { size: 0x30000 }, setup);
            clean("later heap", &HeapSubject { size: 0x30000, sizes: 5, later: true }, setup);
        }
    }
}

/// Stopped by a power cut at any moment, a migration goes on, and loses and leaks nothing.
#[test]
fn migrations_survive_power_cuts() {
    for machine in Machine::ALL {
        let failing_drains = machine.durability == lode_pmem::Durability::Commit;
        let images = scaled_images(1_000);
        let setup = Setup { machine, threads: 1, operations: 1, images, failing_drains, ..Setup::default() };
        clean("migration", &MigratingSubject { size: 0x30000, notes: true }, setup);
        clean("migration in place", &MigratingSubject { size: 0x30000, notes: false }, setup);
    }
}

/// Whatever a transaction did with its containers is there after a power cut, or nothing of it, and nothing leaks.
#[test]
fn containers_survive_power_cuts() {
    for machine in Machine::ALL {
        for threads in [1, 2] {
            let images = scaled_images(1_500);
            let setup = Setup { seed: seed(1), images, ..Setup::shared(machine, threads, 60) };
            clean("containers", &ContainersSubject { size: 0x60000 }, setup);
        }
    }
}

fn clean_when_struck(name: &str, subject: &impl Subject) {
    for machine in Machine::ALL {
        for threads in [1, 2] {
            let images = scaled_images(200);
            let setup =
                Setup { machine, threads, operations: 60 / threads as u64, images, ..Setup::default() };
            let report = explore_poison(subject, &setup);
            println!("{name}, {machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
            assert!(report.poisoned_runs > 0 && report.refused > 0, "{report}");
        }
    }
}

/// A line is lost at a load: an operation reports it or is right, and what lies elsewhere is still there.
#[test]
fn log_survives_lost_lines() {
    clean_when_struck("log", &LogSubject { size: 0x10000, log_len: 0x4000 });
}

#[test]
fn heap_survives_lost_lines() {
    clean_when_struck("heap", &HeapSubject { size: 0x30000, sizes: 5, later: false });
}
