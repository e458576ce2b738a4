//! The program on damaged pools, as a user runs it: exit code 0 means a complete and right output, no command dies or
//! hangs, and reading changes no byte. Each part of a sample is a process, so the library gets more samples, in
//! `lode-attack`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_attack::Progress;
use lode_attack::files::{Program, Samples, TARGET_KINDS, attack};
use lode_testing::{scaled, seed};
use std::path::Path;

/// Damages the pool of one seed, and checks each output of the program.
fn attack_victim(victim: u64) {
    let samples = Samples { seed: seed(1) * TARGET_KINDS + victim, numbers: 0..scaled(12), keep: None };
    let program = Program::new(Path::new(env!("CARGO_BIN_EXE_lode"))).unwrap();
    let mut found = Vec::new();
    let progress = Progress::NONE;
    let tell = &mut |finding| found.push(finding);
    let tally = attack(&samples, &program, &mut progress.thread(0), tell).unwrap();
    println!("{tally:?}");
    assert_eq!(found, [], "{samples:?}");
    assert!(tally.detected > 0 && tally.exported > 0, "{tally:?}");
}

#[test]
fn small_closed_pools() {
    attack_victim(2);
}

#[test]
fn large_unclosed_pools() {
    attack_victim(3);
}
