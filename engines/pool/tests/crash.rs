//! A power cut while a pool is made, grown or changed leaves a whole pool, either the old one or the new one.

use lode_pmem::Durability;
use lode_pool::explore::PoolSubject;
use lode_sim::{Budget, Machine, Setup, explore};

fn keeps_its_promise(subject: PoolSubject) {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let budget = Budget::scaled(2_000, 5.0);
            let failing_drains = machine.durability == Durability::Commit;
            let operations = 12 / threads as u64;
            let setup = Setup { machine, threads, operations, budget, failing_drains, ..Setup::default() };
            let report = explore(&subject, &setup);
            println!("{subject:?}, {machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}

#[test]
fn pools_are_made_whole_or_not_at_all() {
    keeps_its_promise(PoolSubject::Made);
}

#[test]
fn pools_have_their_old_size_or_the_new_one() {
    keeps_its_promise(PoolSubject::Grown);
}
