//! Runs a ledger on a pool until the pool refuses: `ledger POOL`.

use anyhow::{Context, Result};
use lode_powercut::ledger::{self, Ledger};
use std::env;
use std::path::Path;

fn main() -> Result<()> {
    let pool = env::args_os().nth(1).context("usage: ledger POOL")?;
    ledger::run(&Ledger::open(Path::new(&pool))?)
}
