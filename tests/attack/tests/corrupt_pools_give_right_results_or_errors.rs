//! Flipped bits, lost lines and pages, files cut short: what a damaged pool answers is right, or an error.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_attack::files::TARGET_KINDS;
use lode_testing::{budget, seed};
use std::path::Path;

/// Samples of each pool. With the budget of soak, 10, they are 6,000 in all.
const SAMPLES: f64 = 100.0;

/// Damages the pool of one seed and checks each result of the library, in a worker.
fn attack(target: u64) {
    let samples = ((SAMPLES * budget()) as u64).max(4);
    // The seed of a pool decides its kind.
    let seed = seed(1) * TARGET_KINDS + target;
    let arguments =
        ["files", "--seed", &seed.to_string(), "--samples", &samples.to_string()].map(str::to_owned);
    let result =
        lode_attack::run(Path::new(env!("CARGO_BIN_EXE_attack")), &arguments, lode_attack::STALL_LIMIT)
            .unwrap();
    println!("{}", result.out);
    let found: Vec<String> = result.findings.iter().map(|finding| format!("{finding}")).collect();
    assert!(
        found.is_empty(),
        "{} findings, such as:\n{}",
        found.len(),
        found[..found.len().min(5)].join("\n")
    );
}

#[test]
fn small_closed_pools() {
    attack(2);
    attack(4);
}

#[test]
fn small_unclosed_pools() {
    attack(0);
}

#[test]
fn large_closed_pools() {
    attack(1);
    attack(5);
}

#[test]
fn large_unclosed_pools() {
    attack(3);
}
