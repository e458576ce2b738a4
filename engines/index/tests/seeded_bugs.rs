//! The explorer finds every seeded bug of the tree. Built with `--cfg lode_bugs`.
#![cfg(lode_bugs)]

use lode_index::bugs;
use lode_index::explore::{ShrinkingSubject, TreeSubject, TreesSubject};
use lode_layout::bug::Bug;
use lode_pmem::Durability;
use lode_sim::{Cpu, Machine, Setup, Subject, find_seeded_bug};

/// Few runs show some bugs; these tests begin with the seed of one of those.
fn is_found(bug: &'static Bug, subject: &(impl Subject + Sync), threads: usize, seed: u64) {
    let machine = Machine { cpu: Cpu::X86, durability: Durability::Line };
    let operations = 90 / threads as u64;
    let setup = Setup { machine, threads, operations, images: 5_000, seed, ..Setup::default() };
    match find_seeded_bug(bug, subject, &setup, 40) {
        Ok(violation) => println!("{bug}: {violation}"),
        Err(error) => panic!("{bug}: {error}"),
    }
}

const TREE: TreeSubject = TreeSubject { size: 0x80000, in_batches: false };
const TREES: TreesSubject = TreesSubject { size: 0x80000, in_typed_pool: false };
const SHRINKING: ShrinkingSubject = ShrinkingSubject { size: 0x180000 };

macro_rules! found {
    ($($test:ident: $bug:ident of $subject:ident with $threads:literal $(from $seed:literal)?;)+) => {
        $(#[test]
        fn $test() {
            let seed = [$($seed,)? 1000][0];
            is_found(&bugs::$bug, &$subject, $threads, seed);
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
    root_moved_in_two: ROOT_MOVED_IN_TWO of SHRINKING with 1 from 5004;
}
