//! Publications are atomic: after a power cut all of one is there or nothing, no object has bytes of another one, and no space is lost.

use crate::subject::HeapSubject;
use lode_sim::{Machine, Setup, explore, scaled_images};
use lode_testing::seed;

#[test]
fn publications_survive_power_cuts() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let subject = HeapSubject::new(machine.durability);
            // Most of them on one machine: the others differ in their media, which the log's own explorer compares.
            let images = scaled_images(if machine == Machine::ALL[0] { 400 } else { 60 });
            let shared = Setup::shared(machine, threads, 60);
            let setup = Setup { seed: seed(1), images, exhaustive: 8, samples: 3, ..shared };
            let report = explore(&subject, &setup);
            println!("{machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}

/// The explorer finds every seeded bug of the allocator. Built with `--cfg lode_bugs`.
#[cfg(lode_bugs)]
mod bugs {
    use super::*;
    use lode_layout::bug::Bug;
    use lode_obj::bugs;

    fn is_found(bug: &'static Bug, threads: usize) {
        let machine = Machine::ALL[0];
        let operations = 60 / threads as u64;
        let limits = Setup { exhaustive: 8, samples: 3, nested_one_in: 0, ..Setup::default() };
        let setup = Setup { machine, threads, operations, images: 150, seed: 1000, ..limits };
        match lode_sim::find_seeded_bug(bug, &HeapSubject::new(machine.durability), &setup, 60) {
            Ok(violation) => println!("{bug}: {violation}"),
            Err(error) => panic!("{bug}: {error}"),
        }
    }

    macro_rules! found {
        ($($test:ident: $bug:ident with $threads:literal;)+) => {
            $(#[test]
            fn $test() {
                is_found(&bugs::$bug, $threads);
            })+

            #[test]
            fn every_bug_of_the_heap_has_a_test() {
                let tested = [$(bugs::$bug.name()),+];
                for bug in bugs::OF_HEAP {
                    assert!(tested.contains(&bug.name()), "{bug}");
                }
            }
        };
    }

    found! {
        split_not_logged: SPLIT_NOT_LOGGED with 1;
        bitmap_not_logged: BITMAP_NOT_LOGGED with 1;
        bits_of_freed_runs: BITS_OF_FREED_RUNS with 1;
        freed_at_once: FREED_AT_ONCE with 2;
        header_not_logged: HEADER_NOT_LOGGED with 1;
    }
}
