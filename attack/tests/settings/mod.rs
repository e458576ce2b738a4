#![allow(dead_code, reason = "each test uses a part")]
//! What the environment says.

/// The attacker, which its tests run as workers.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_attack");

/// The first seed, which is printed.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("LODE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("LODE_SEED={seed}");
    seed
}

/// How much larger than usual a test is to be.
pub(crate) fn budget() -> f64 {
    std::env::var("LODE_BUDGET").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0)
}
