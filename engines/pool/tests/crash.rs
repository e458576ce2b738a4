//! A power cut while a pool is made, grown or changed leaves a whole pool, either the old one or the new one.

use lode_pmem::Durability;
use lode_pool::explore::PoolSubject;
use lode_sim::{Machine, Setup, explore, scaled_images};

fn survives_power_cuts(subject: PoolSubject) {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let images = scaled_images(1_000);
            let failing_drains = machine.durability == Durability::Commit;
            let operations = 12 / threads as u64;
            let setup = Setup { machine, threads, operations, images, failing_drains, ..Setup::default() };
            let report = explore(&subject, &setup);
            println!("{subject:?}, {machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}

#[test]
fn pool_creation_is_atomic() {
    survives_power_cuts(PoolSubject::Create);
}

#[test]
fn pool_growth_is_atomic() {
    survives_power_cuts(PoolSubject::Grow);
}
