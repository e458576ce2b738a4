//! A power cut leaves all records up to some place, with all that were acknowledged, and no damage.

use lode_log::explore::LogSubject;
use lode_log::pmdk::explore::PmemLogSubject;
use lode_sim::{Machine, Setup, explore, explore_poison, scaled_images};
use lode_testing::seed;

/// Length of an area that holds about ten records.
const SMALL: u64 = 2048;

fn survives_power_cuts(area_len: u64, operations: u64, images: u64) {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let subject = LogSubject::new(area_len, machine.durability);
            let images = scaled_images(images);
            let setup = Setup { seed: seed(1), images, ..Setup::shared(machine, threads, operations) };
            let report = explore(&subject, &setup);
            println!("{subject:?}, {machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}

#[test]
fn records_are_never_torn_or_lost() {
    survives_power_cuts(SMALL, 60, 2_000);
}

#[test]
fn records_of_a_larger_area_are_never_torn_or_lost() {
    survives_power_cuts(4 * SMALL, 60, 500);
}

#[test]
fn appends_of_pmdk_are_never_torn_or_lost() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let subject = PmemLogSubject::new(machine.durability);
            let images = scaled_images(1_000);
            let setup = Setup { seed: seed(1), images, ..Setup::shared(machine, threads, 40) };
            let report = explore(&subject, &setup);
            println!("{subject:?}, {machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}

/// A line of a record, of the state or of the redo log is lost while threads use the log.
#[test]
fn lost_line_is_reported_and_loses_nothing_else() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let subject = LogSubject::new(SMALL, machine.durability);
            let images = scaled_images(200);
            let setup = Setup { machine, threads, operations: 12, images, ..Setup::default() };
            let report = explore_poison(&subject, &setup);
            println!("{machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}
