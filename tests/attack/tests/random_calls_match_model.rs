//! Random calls over heap, store, typed data and threads do what a model says, and none of them hangs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_attack::api::{self, Part, Sequence};
use lode_testing::{budget, seed};
use std::path::Path;

fn attack(part: Part, sequences: u64) {
    let count = ((sequences as f64 * budget()).ceil() as u64).max(1);
    let first = seed(1);
    let mut found = Vec::new();
    for seed in first..first + count {
        let sequence = Sequence { part, seed, steps: (0..part.steps()).collect() };
        let supervise = &mut |arguments: &[String], limit| {
            Ok(lode_attack::run(Path::new(env!("CARGO_BIN_EXE_attack")), arguments, limit)?.findings)
        };
        if let Some((finding, repeat)) = api::attack(&sequence, lode_attack::STALL_LIMIT, supervise).unwrap()
        {
            found.push(format!("{finding}\n  repeat: cargo run -p lode-attack -- {repeat}"));
        }
    }
    assert!(found.is_empty(), "{} of {count} sequences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn objects_and_reservations_match_model() {
    attack(Part::Heap, 8);
}

#[test]
fn trees_and_stores_match_model() {
    attack(Part::Store, 8);
}

#[test]
fn typed_data_matches_model() {
    attack(Part::Typed, 8);
}

#[test]
fn threads_and_readers_match_model() {
    attack(Part::Threads, 3);
}

#[test]
fn emptied_pools_hold_as_much_again() {
    attack(Part::Full, 2);
}
