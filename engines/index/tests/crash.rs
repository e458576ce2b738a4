//! No power cut loses a key, doubles or leaks an object, or leaves a transaction in part.

use lode_index::explore::{IsolationSubject, MapsSubject, ShrinkingSubject, TreeSubject, TreesSubject};
use lode_pmem::Durability;
use lode_sim::{Machine, Setup, Subject, explore, explore_poison, scaled_images};
use lode_testing::seed;

/// Explores a subject on each machine with 1 to 3 threads, which share so many operations.
fn survives(name: &str, subject: &impl Subject, operations: u64, images: u64) {
    for machine in Machine::ALL {
        for threads in 1..=3 {
            let setup = Setup { seed: seed(1), images, ..Setup::shared(machine, threads, operations) };
            let report = explore(subject, &setup);
            println!("{name}, {machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}

#[test]
fn tree_survives_power_cuts() {
    let subject = TreeSubject { size: 0x80000, in_batches: false };
    survives("tree", &subject, 90, scaled_images(5_000));
}

/// The same for transactions with a batch of deletions and one of insertions, beside other threads.
#[test]
fn batches_survive_power_cuts() {
    survives("batches", &TreeSubject { size: 0x80000, in_batches: true }, 60, scaled_images(2_500));
}

/// Trees are made, changed and dropped whole, and the space of dropped ones is given back, whatever a power cut leaves.
#[test]
fn named_trees_survive_power_cuts() {
    let subject = TreesSubject { size: 0x80000, in_typed_pool: false };
    survives("named trees", &subject, 60, scaled_images(2_500));
}

/// The same beside typed data: cells and trees that one transaction changes are those of one commit, whatever a power cut leaves,
/// also while the first trees make their table.
#[test]
fn trees_beside_typed_data_survive_power_cuts() {
    let subject = TreesSubject { size: 0x80000, in_typed_pool: true };
    survives("trees beside typed data", &subject, 60, scaled_images(2_500));
}

/// Objects with maps are made, their maps filled and cleared, and both freed, whatever a power cut leaves.
#[test]
fn maps_survive_power_cuts() {
    survives("maps", &MapsSubject { size: 0x80000 }, 60, scaled_images(2_500));
}

/// A pool that shrinks keeps its trees, whatever a power cut leaves of the moves, of the header and of the moved log.
#[test]
fn shrinking_pool_survives_power_cuts() {
    for machine in Machine::ALL {
        let images = scaled_images(2_500);
        let failing_drains = machine.durability == Durability::Commit;
        let setup =
            Setup { machine, operations: 12, seed: seed(1), images, failing_drains, ..Setup::default() };
        let report = explore(&ShrinkingSubject { size: 0x180000 }, &setup);
        println!("shrinking pool, {machine}: {report}");
        assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
    }
}

/// Some order of the transactions explains all that they read, and what a power cut leaves.
#[test]
fn tree_transactions_are_serializable() {
    for machine in Machine::ALL {
        for threads in 2..=3 {
            // With the budget of soak, 10, a million images in each round, and others in the next.
            let (images, seed) = (scaled_images(10_000), seed(1));
            let setup = Setup { seed, images, ..Setup::shared(machine, threads, 60) };
            let report = explore(&IsolationSubject { size: 0x80000 }, &setup);
            println!("reads of a tree, {machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
        }
    }
}

/// A line is lost at a load: an operation reports it or is right, and what lies elsewhere is still there.
#[test]
fn tree_survives_lost_lines() {
    for machine in Machine::ALL {
        for threads in [1, 2] {
            let images = scaled_images(200);
            let setup =
                Setup { machine, threads, operations: 40 / threads as u64, images, ..Setup::default() };
            let report = explore_poison(&TreeSubject { size: 0x80000, in_batches: false }, &setup);
            println!("tree, {machine}, {threads} threads: {report}");
            assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
            assert!(report.poisoned_runs > 0 && report.refused > 0, "{report}");
        }
    }
}
