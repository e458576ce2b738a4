//! SIGKILL at random moments, on the durabilities line and commit: each acknowledged transaction is there, and each
//! that was in flight is whole or not there at all.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_attack::kill::{self, Kills, Work};
use lode_heap::Durability;
use lode_testing::{budget, seed};
use std::path::Path;

/// Kills without a budget. With that of soak, 10, they are 1,000 on each durability.
const KILLS: f64 = 50.0;

fn attack(work: Work, durability: Durability) {
    attack_times(work, durability, KILLS);
}

fn attack_times(work: Work, durability: Durability, count: f64) {
    let kills = Kills { work, durability, seed: seed(1), count: ((count * budget()) as u64).max(2) };
    let mut found = Vec::new();
    let acknowledged =
        kill::attack(&kills, Path::new(env!("CARGO_BIN_EXE_attack")), &mut |finding| found.push(finding))
            .unwrap();
    println!("{} kills, {acknowledged} acknowledged", kills.count);
    assert_eq!(found, [], "{kills:?}");
    assert!(acknowledged >= kills.count, "a child acknowledges at least one transaction before it is killed");
}

#[test]
fn keys_on_line_durability() {
    attack(Work::Pairs, Durability::Line);
}

#[test]
fn keys_on_commit_durability() {
    attack(Work::Pairs, Durability::Commit);
}

#[test]
fn objects_on_line_durability() {
    attack(Work::Ledger, Durability::Line);
}

#[test]
fn objects_on_commit_durability() {
    attack(Work::Ledger, Durability::Commit);
}

/// Trees are made, dropped, renamed and rolled back to savepoints meanwhile.
#[test]
fn named_trees_on_line_durability() {
    attack_times(Work::Trees, Durability::Line, 20.0);
}

#[test]
fn named_trees_on_commit_durability() {
    attack_times(Work::Trees, Durability::Commit, 20.0);
}

/// Most transactions return before they are durable: the pool has all up to some moment, and those of answered tickets.
#[test]
fn later_transactions_on_commit_durability() {
    attack_times(Work::Later, Durability::Commit, 20.0);
}

/// Migrations are killed after a random number of their steps, and go on, also to the types of a newer program.
#[test]
fn migrations_on_line_durability() {
    attack_times(Work::Migration, Durability::Line, 20.0);
}

#[test]
fn migrations_on_commit_durability() {
    attack_times(Work::Migration, Durability::Commit, 20.0);
}
