//! Logs in pool sets that both libraries make, open and change in turn; and creates that are killed.

use lode_capi_compare::{Killer, Library, Moment, Program, SetFolder};
use std::fs;

/// The lines of a set file, and the bytes that its log has.
const SETS: [(&str, u64); 5] = [
    ("2M @/a\n3M @/b\n", (5 << 20) - 3 * 4096),
    ("OPTION SINGLEHDR\n2M @/a\n3M @/b\n", (5 << 20) - 2 * 4096),
    ("2M @/a\n2100000 @/b\n2M @/c\n", (6 << 20) - 4 * 4096),
    ("OPTION SINGLEHDR\n64M @/d\n", (2 << 20) - 2 * 4096),
    ("4M @/a\n", (4 << 20) - 2 * 4096),
];

/// Returns what a log of these appends reads as.
fn content(appends: &[(usize, u8)], capacity: u64) -> String {
    let bytes = appends.iter().flat_map(|(len, byte)| std::iter::repeat_n(*byte, *len));
    let sum = bytes
        .fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let len: usize = appends.iter().map(|(len, _)| len).sum();
    format!("{len} {sum} of {capacity}")
}

#[test]
fn sets_are_exchanged() {
    let Some(program) = Program::compile("pmemlog_set", Library::PMEMLOG) else { return };
    for (lines, capacity) in SETS {
        for is_first_ours in [true, false] {
            let set = SetFolder::new(lines);
            set.call(&program, is_first_ours, &["create"]).unwrap();
            set.assert_consistent();
            let names = set.names();
            let mut appends = Vec::new();
            // The last one reaches over the end of a part of 2 MiB.
            for (round, len) in [1_000_000, 1_088_000, 3, 8192].into_iter().enumerate() {
                let (is_ours, byte) = (is_first_ours == (round % 2 == 0), 65 + round as u8);
                set.call(&program, is_ours, &["append", &len.to_string(), &byte.to_string()]).unwrap();
                appends.push((len, byte));
                if round == 1 && capacity < 3 << 20 {
                    break;
                }
            }
            for is_ours in [true, false] {
                let found = set.call(&program, is_ours, &["read"]).unwrap();
                assert_eq!(found, content(&appends, capacity), "{lines:?}, ours: {is_ours}");
                set.call(&program, is_ours, &["check"]).unwrap();
                let refused = set.call(&program, is_ours, &["create"]).unwrap_err();
                assert!(refused.contains("errno 17 Non-empty file detected"), "{refused}");
            }
            set.assert_consistent();
            assert_eq!(set.names(), names);
        }
    }
}

/// A part that belongs elsewhere, is missing, or was cut is refused by both with the same words, and nothing is changed.
#[test]
fn wrong_parts_are_refused() {
    let Some(program) = Program::compile("pmemlog_set", Library::PMEMLOG) else { return };
    let set = SetFolder::new("2M @/a\n2M @/b\n2M @/c\n");
    set.call(&program, true, &["create"]).unwrap();
    let foreign = SetFolder::new("2M @/a\n2M @/b\n2M @/c\n");
    foreign.call(&program, false, &["create"]).unwrap();
    fs::copy(foreign.path().join("b"), set.path().join("foreign")).unwrap();
    for (lines, words) in [
        ("2M @/a\n2M @/foreign\n2M @/c\n", "errno 22 wrong part UUID"),
        ("2M @/a\n2M @/c\n2M @/b\n", "errno 22 wrong part UUID"),
        ("2M @/a\n2M @/b\n", "errno 22 wrong part UUID"),
        ("2M @/a\n2M @/b\n2M @/b\n", "errno 11 flock \""),
        ("2M @/a\n2M @/b\n2M @/missing\n", "errno 2 open \""),
        ("2M @/a\n2M @/b\n3M @/c\n", "errno 22 file size does not match config: "),
        ("2M @/a\n2M @/b\n2M @/c\nREPLICA\n6M @/a\n", "errno 11 flock \""),
    ] {
        set.write(lines);
        for call in ["read", "check"] {
            let [theirs, ours] =
                [false, true].map(|is_ours| set.call(&program, is_ours, &[call]).unwrap_err());
            assert!(theirs.contains(words) && ours.contains(words), "{lines:?}: {theirs}, {ours}");
        }
    }
    set.write("2M @/a\n2M @/b\n2M @/c\n");
    for is_ours in [true, false] {
        set.call(&program, is_ours, &["append", "10", "65"]).unwrap();
    }
}

#[test]
fn killed_create_is_before_or_after() {
    let Some(program) = Program::compile("pmemlog_set", Library::PMEMLOG) else { return };
    let Some(killer) = Killer::compile() else { return };
    let mut random = fastrand::Rng::with_seed(lode_testing::seed(1));
    for round in 0..lode_testing::scaled(24) {
        let lines = SETS[round as usize % SETS.len()].0;
        let set = SetFolder::new(lines);
        // Of a create of its own, since sets differ.
        let whole = SetFolder::new(lines).kill_at(&killer, &program, &["create"], Moment::NEVER);
        set.kill_at(&killer, &program, &["create"], Moment::draw(whole.calls, &mut random));
        set.assert_before_or_after(&program, &["create"], &["read"]);
    }
}
