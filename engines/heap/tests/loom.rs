//! The lock-free parts in every interleaving that loom's memory model allows. Built with `--cfg loom`, which also
//! makes tables and lanes few.
//!
//! Pins and versioned locks are taken in as sources, since they are private: so the words that they guard here are
//! loom's, too. The log is the public one, on a medium that tells loom of write-backs and finished log writes.
#![cfg(loom)]
#![allow(unreachable_pub, dead_code, clippy::unwrap_used, reason = "sources of the crate; a test may panic")]

#[path = "../src/locks.rs"]
mod locks;
mod models;
#[path = "../src/readers.rs"]
mod readers;

use loom::model::Builder;

/// Runs `model` in every interleaving with at most `preemptions` involuntary switches of threads.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}
