//! The allocator of an open pool: against a model, and with PMDK as the judge.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fill;
mod fixture;
mod judge;
mod model;
mod rules;
mod sizes;
