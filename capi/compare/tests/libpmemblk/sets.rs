//! Blocks in pool sets that both libraries make, open and change in turn; and creates that are killed.

use lode_capi_compare::{Killer, Library, Moment, Program, SetFolder};

/// The lines of set files.
const SETS: [&str; 3] =
    ["10M @/a\n7M @/b\n", "OPTION SINGLEHDR\n10M @/a\n7M @/b\n", "8M @/a\n2100000 @/b\n8M @/c\n"];

#[test]
fn sets_are_exchanged() {
    let Some(program) = Program::compile("pmemblk_set", Library::PMEMBLK) else { return };
    for lines in SETS {
        for is_first_ours in [true, false] {
            let set = SetFolder::new(lines);
            set.call(&program, is_first_ours, &["create", "4096"]).unwrap();
            let mut capacities = Vec::new();
            // Without a table, all blocks are zeros.
            for is_ours in [is_first_ours, !is_first_ours] {
                let found = set.call(&program, is_ours, &["read", "7"]).unwrap();
                assert!(found.starts_with("0 0 of "), "{found}");
                capacities.push(found);
            }
            assert_eq!(capacities[0], capacities[1]);
            set.assert_consistent();
            for (round, block) in ["0", "-1", "2000", "-2", "0"].into_iter().enumerate() {
                let is_ours = is_first_ours == (round % 2 == 0);
                set.call(&program, is_ours, &["write", block, &(round + 1).to_string()]).unwrap();
            }
            for is_ours in [true, false] {
                for (block, byte) in [("0", 5), ("-1", 2), ("2000", 3), ("-2", 4), ("1", 0)] {
                    let found = set.call(&program, is_ours, &["read", block]).unwrap();
                    assert!(found.starts_with(&format!("{byte} {byte} of ")), "{lines:?}, {block}: {found}");
                }
                set.call(&program, is_ours, &["check"]).unwrap();
            }
            set.assert_consistent();
        }
    }
}

#[test]
fn killed_create_is_before_or_after() {
    let Some(program) = Program::compile("pmemblk_set", Library::PMEMBLK) else { return };
    let Some(killer) = Killer::compile() else { return };
    let mut random = fastrand::Rng::with_seed(lode_testing::seed(1));
    for round in 0..lode_testing::scaled(12) {
        let lines = SETS[round as usize % SETS.len()];
        let set = SetFolder::new(lines);
        // Of a create of its own, since sets differ.
        let whole = SetFolder::new(lines).kill_at(&killer, &program, &["create", "512"], Moment::NEVER);
        set.kill_at(&killer, &program, &["create", "512"], Moment::draw(whole.calls, &mut random));
        set.assert_before_or_after(&program, &["create", "512"], &["read", "0"]);
    }
}
