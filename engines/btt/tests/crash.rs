//! A power cut leaves each block whole: its old content or its new one.

use lode_btt::explore::BttSubject;
use lode_nvdimm::BttDialect;
use lode_pmem::Durability;
use lode_sim::{Machine, Setup, WriteCache, explore, explore_poison, scaled_images};
use lode_testing::seed;

const TABLE: BttSubject = BttSubject::SMALL;

fn survives_power_cuts(subject: BttSubject, images: u64) {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let is_cached = machine.durability == Durability::Commit;
            let cache = if is_cached { WriteCache::Volatile } else { WriteCache::None };
            let subject = BttSubject { cache, ..subject };
            let images = scaled_images(images);
            let operations = if subject.is_lazy { 4 } else { 36 / threads as u64 };
            let setup = Setup {
                machine,
                threads,
                operations,
                seed: seed(1),
                images,
                failing_drains: is_cached,
                ..Setup::default()
            };
            let report = explore(&subject, &setup);
            println!("{subject:?}, {machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}

#[test]
fn blocks_are_never_torn_or_lost() {
    survives_power_cuts(BttSubject { arenas: 2, ..TABLE }, 2_000);
}

#[test]
fn pools_of_pmdk_lose_nothing_with_either_recovery() {
    survives_power_cuts(BttSubject { dialect: BttDialect::Pmdk, ..TABLE }, 2_000);
}

#[test]
fn new_pool_of_pmdk_is_whole_or_absent() {
    survives_power_cuts(BttSubject { dialect: BttDialect::Pmdk, is_lazy: true, ..TABLE }, 1_000);
}

#[test]
fn lanes_that_are_never_shared_lose_nothing() {
    survives_power_cuts(BttSubject { lanes: 3, ..TABLE }, 5_000);
}

#[test]
fn batches_on_several_lanes_lose_nothing() {
    survives_power_cuts(BttSubject { arenas: 2, lanes: 4, ..TABLE }, 1_000);
}

/// A block is written in place by some threads while others give it another place.
#[test]
fn writes_in_place_change_no_other_block() {
    survives_power_cuts(BttSubject { in_place: true, ..TABLE }, 2_000);
}

#[test]
fn new_table_is_whole_or_absent() {
    survives_power_cuts(BttSubject { is_lazy: true, ..TABLE }, 2_000);
}

/// A line of a block, of the map or of the flog is lost while threads use the table.
#[test]
fn lost_line_is_reported_and_loses_nothing_else() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let is_cached = machine.durability == Durability::Commit;
            let cache = if is_cached { WriteCache::Volatile } else { WriteCache::None };
            let subject = BttSubject { cache, ..TABLE };
            let images = scaled_images(300);
            let setup = Setup { machine, threads, operations: 12, images, ..Setup::default() };
            let report = explore_poison(&subject, &setup);
            println!("{machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}
