//! No power cut loses a key, doubles or leaks an object, or leaves a transaction in part.

use lode_index::explore::TreeSubject;
use lode_pmem::Rung;
use lode_sim::{Budget, Machine, Setup, explore};

#[test]
fn the_tree_keeps_its_promise() {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let budget = Budget::scaled(10_000, 100.0);
            let failing_drains = machine.rung == Rung::Commit;
            let operations = 90 / threads as u64;
            let setup = Setup { machine, threads, operations, budget, failing_drains, ..Setup::default() };
            let report = explore(&TreeSubject { size: 0x80000 }, &setup);
            println!("tree, {machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}
