//! The settings of a test run, from the environment, and the line of a test that skips itself.

use std::env;
use std::fmt::Display;
use std::io::{self, Write};
use std::str::FromStr;

fn variable<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}

/// Returns `LODE_SEED`, or `default`, and prints it.
pub fn seed(default: u64) -> u64 {
    let seed = variable("LODE_SEED").unwrap_or(default);
    println!("LODE_SEED={seed}");
    seed
}

/// Returns `LODE_BUDGET`, or 1: the factor by which a test multiplies its rounds.
pub fn budget() -> f64 {
    variable("LODE_BUDGET").unwrap_or(1.0)
}

/// Returns `count` times [`budget`], and at least `count`.
pub fn scaled(count: u64) -> u64 {
    (count as f64 * budget().max(1.0)) as u64
}

/// Writes the line that reports that `test` can't run here. It bypasses the harness, which captures what tests print.
pub fn skip(test: &str, reason: impl Display) {
    io::stderr().write_all(format!("SKIP {test}: {reason}\n").as_bytes()).unwrap();
}
