//! A power cut leaves what transactions and persists had made durable, and takes open transactions back.

use lode_redo::explore::CoverSubject;
use lode_sim::{Machine, Setup, explore, explore_poison, scaled_images};
use lode_testing::seed;

/// Images of each machine and number of threads.
const IMAGES: u64 = 4_000;

fn stores_in_place_survive_power_cuts(machine: Machine) {
    for threads in 1..=3 {
        let subject = CoverSubject::new(machine.durability);
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
            stores_in_place_survive_power_cuts(Machine::ALL[$machine]);
        })+

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

/// A line of a record, of a slot, of a range or of an object is lost while threads use the memory.
#[test]
fn lost_line_is_reported_and_loses_nothing_else() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let subject = CoverSubject::closed(machine.durability);
            let images = scaled_images(200);
            let setup = Setup { machine, threads, operations: 12, seed: seed(1), images, ..Setup::default() };
            let report = explore_poison(&subject, &setup);
            println!("{machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}
