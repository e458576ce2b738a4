//! The explorer finds every seeded bug of the tree. Built with `--cfg lode_bugs`.
#![cfg(lode_bugs)]

use lode_index::bugs;
use lode_index::explore::{ShrinkingSubject, TreeSubject, TreesSubject};
use lode_layout::bug::Bug;
use lode_pmem::Durability;
use lode_sim::{Budget, Cpu, Machine, Setup, Subject, explore};

fn is_found(bug: &'static Bug, subject: &(impl Subject + Sync), threads: usize) {
    let machine = Machine { cpu: Cpu::X86, durability: Durability::Line };
    let violation = bug.plant(|| {
        (1..=40).map(|seed| seed * 1000).find_map(|seed| {
            let budget = Budget { images: 5_000, seconds: 20.0 };
            let operations = 90 / threads as u64;
            let setup = Setup { machine, threads, operations, budget, seed, ..Setup::default() };
            explore(subject, &setup).violation.map(|violation| violation.to_string())
        })
    });
    assert!(bug.was_reached(), "{bug}: the wrong code was never run");
    let violation = violation.unwrap_or_else(|| panic!("{bug}: not found"));
    println!("{bug}: {violation}");
}

const TREE: TreeSubject = TreeSubject { size: 0x80000, in_batches: false };
const TREES: TreesSubject = TreesSubject { size: 0x80000, in_typed_pool: false };
const SHRINKING: ShrinkingSubject = ShrinkingSubject { size: 0x180000 };

macro_rules! found {
    ($($test:ident: $bug:ident of $subject:ident with $threads:literal;)+) => {
        $(#[test]
        fn $test() {
            is_found(&bugs::$bug, &$subject, $threads);
        })+

        #[test]
        fn every_seeded_bug_has_a_test() {
            let tested = [$(bugs::$bug.name()),+];
            for bug in bugs::ALL {
                assert!(tested.contains(&bug.name()), "{bug}");
            }
        }
    };
}

found! {
    parent_unlocked: PARENT_UNLOCKED of TREE with 3;
    cell_unlocked: CELL_UNLOCKED of TREE with 2;
    value_before_drain: VALUE_BEFORE_DRAIN of TREE with 1;
    leaf_leaked: LEAF_LEAKED of TREE with 1;
    tree_name_unvalidated: TREE_NAME_UNVALIDATED of TREES with 3;
    dropped_tree_forgotten: DROPPED_TREE_FORGOTTEN of TREES with 1;
    dropped_root_leaked: DROPPED_ROOT_LEAKED of TREES with 1;
    root_moved_in_two: ROOT_MOVED_IN_TWO of SHRINKING with 1;
}
