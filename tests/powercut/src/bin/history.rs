//! Runs transactions on the keys of a pool until the pool refuses: `history POOL THREADS SEED`.

use anyhow::{Context, Result};
use lode_powercut::history::{self, Keys};
use std::env;
use std::path::Path;

fn main() -> Result<()> {
    let usage = "usage: history POOL THREADS SEED";
    let mut arguments = env::args_os().skip(1);
    let pool = arguments.next().context(usage)?;
    let mut number = || arguments.next()?.to_str()?.parse::<u64>().ok();
    let (threads, seed) = number().zip(number()).context(usage)?;
    history::run(&Keys::open(Path::new(&pool))?, threads, seed)
}
