//! A power cut leaves what transactions and persists had made durable, and takes open transactions back.

use lode_pmem::Durability;
use lode_redo::explore::CoverSubject;
use lode_sim::{Machine, Setup, explore, explore_poison, scaled_images};
use lode_testing::seed;

/// Images of each machine and number of threads.
const IMAGES: u64 = 4_000;

fn stores_survive_power_cuts(subject: CoverSubject, machine: Machine) {
    for threads in 1..=3 {
        let images = scaled_images(IMAGES);
        let setup = Setup { seed: seed(1), images, ..Setup::shared(machine, threads, 60) };
        let report = explore(&subject, &setup);
        println!("{subject:?}, {machine}, {threads} threads: {report}");
        assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
    }
}

/// A test for each machine, so that they run beside each other.
macro_rules! survive {
    ($($test:ident: $machine:literal;)+) => {
        $(#[test]
        fn $test() {
            let machine = Machine::ALL[$machine];
            stores_survive_power_cuts(CoverSubject::new(machine.durability), machine);
        })+

        mod of_programs_that_flush {
            use super::*;

            $(#[test]
            fn $test() {
                let machine = Machine::ALL[$machine];
                stores_survive_power_cuts(CoverSubject::new(machine.durability).careful(), machine);
            })+
        }

        #[test]
        fn every_machine_has_a_test() {
            assert_eq!(Machine::ALL.len(), [$($machine),+].len());
        }
    };
}

survive! {
    stores_in_place_survive_on_x86_line: 0;
    stores_in_place_survive_on_arm_line: 1;
    stores_in_place_survive_on_x86_byte: 2;
    stores_in_place_survive_on_arm_byte: 3;
    stores_in_place_survive_at_commit: 4;
}

fn lost_line_loses_nothing_else(subject: impl Fn(Durability) -> CoverSubject) {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let subject = subject(machine.durability);
            let images = scaled_images(200);
            let setup = Setup { machine, threads, operations: 12, seed: seed(1), images, ..Setup::default() };
            let report = explore_poison(&subject, &setup);
            println!("{subject:?}, {machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}

/// A line of a record, of a slot, of a range or of an object is lost while threads use the memory.
#[test]
fn lost_line_is_reported_and_loses_nothing_else() {
    lost_line_loses_nothing_else(CoverSubject::closed);
}

#[test]
fn lost_line_of_a_log_that_moves_loses_nothing_else() {
    lost_line_loses_nothing_else(|durability| CoverSubject::closed(durability).moving());
}

#[test]
fn stores_survive_a_move_of_the_log_on_lines() {
    stores_survive_power_cuts(CoverSubject::new(Durability::Line).moving(), Machine::ALL[0]);
}

#[test]
fn stores_survive_a_move_of_the_log_at_commit() {
    stores_survive_power_cuts(CoverSubject::new(Durability::Commit).moving(), Machine::ALL[4]);
}

#[test]
fn stores_of_a_program_that_flushes_survive_a_move_of_the_log() {
    stores_survive_power_cuts(CoverSubject::new(Durability::Line).careful().moving(), Machine::ALL[0]);
}

#[test]
fn lost_line_of_a_program_that_flushes_loses_nothing_else() {
    lost_line_loses_nothing_else(|durability| CoverSubject::closed(durability).careful());
}
