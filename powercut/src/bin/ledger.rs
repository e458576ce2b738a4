//! Keeps a ledger: `ledger POOL [BUG]`. In a build with `--cfg lode_bugs` it can have one of the seeded bugs.

use anyhow::{Context, Result, bail};
use lode_powercut::ledger::{self, Ledger};
use std::env;
use std::path::Path;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [pool] => keep(pool),
        [pool, bug] => keep_with(pool, bug),
        _ => bail!("usage: ledger POOL [BUG]"),
    }
}

fn keep(pool: &str) -> Result<()> {
    ledger::run(&Ledger::open(Path::new(pool))?)
}

#[cfg(lode_bugs)]
fn keep_with(pool: &str, name: &str) -> Result<()> {
    let mut bugs = lode_pmem::bugs::ALL.into_iter().chain(lode_heap::bugs::ALL);
    let bug = bugs.find(|bug| bug.name() == name).with_context(|| format!("no bug is called {name}"))?;
    bug.plant(|| keep(pool))
}

#[cfg(not(lode_bugs))]
fn keep_with(_: &str, name: &str) -> Result<()> {
    None.with_context(|| format!("{name}: seeded bugs are compiled in by --cfg lode_bugs"))
}
