//! reopen-1m, bytes-per-key, private-mib: a process that loads keys and is killed, and what it leaves.

use super::pool;
use super::tree::TreePool;
use crate::private_memory::private_memory;
use crate::rounds::median;
use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use lode_pmem::Durability;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Times that a process loads and is killed.
const ROUNDS: u64 = 5;
/// Keys that each loads more than the one before: it is killed with the log filled to another height.
const STEP: u64 = 1777;
const SEED: u64 = 1;

/// Memory figures that a process prints after it loaded keys.
#[derive(Debug, Serialize, Deserialize)]
struct Loaded {
    /// Bytes of anonymous memory that are its own.
    private: u64,
    /// Bytes of chunks that the keys took.
    chunks: u64,
}

/// Figures of a process that was killed, and of the pool that it left.
pub(super) struct Footprint {
    /// Milliseconds until the pool was open again and the first key was found.
    pub(super) reopen_ms: f64,
    /// Bytes of the pool for each key.
    pub(super) bytes_per_key: f64,
    /// Mebibytes of anonymous memory that were private to the process.
    pub(super) private_mib: f64,
}

/// Loads `keys` random keys into a new pool at `path` with room for `room`, prints its memory use, and waits until it
/// is killed.
pub(crate) fn load_and_wait(path: &Path, keys: u64, room: usize) -> Result<()> {
    let pool = TreePool::create(path, Durability::Line, room, pool::plain)?;
    let before = pool.heap().stats()?.free_chunk_bytes;
    let mut rng = Rng::with_seed(SEED);
    let tree = pool.tree()?;
    for id in 0..keys {
        tree.insert(&rng.u64(..).to_be_bytes(), &id.to_le_bytes())?;
    }
    let private = private_memory("self")?;
    let loaded = Loaded { private, chunks: before - pool.heap().stats()?.free_chunk_bytes };
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &loaded)?;
    writeln!(out)?;
    out.flush()?;
    // The parent process kills this one. If the parent ends first, the read ends.
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Starts a process that loads `keys` keys into a pool with room for `room`, kills it with SIGKILL, and opens the pool.
fn measure_once(path: &Path, keys: u64, room: usize) -> Result<Footprint> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--load")
        .arg(path)
        .args(["--load-keys", &keys.to_string(), "--load-room", &room.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("asked for above")?).read_line(&mut line)?;
    child.kill()?;
    child.wait()?;
    let loaded: Loaded = serde_json::from_str(&line).context("the loading process failed")?;
    let first = Rng::with_seed(SEED).u64(..).to_be_bytes();
    let began = Instant::now();
    let pool = TreePool::open(path, Durability::Line, pool::plain)?;
    let found = pool.tree()?.get(&first)?;
    let reopen_ms = began.elapsed().as_secs_f64() * 1000.0;
    ensure!(found == Some(vec![0; 8]), "the first key is lost");
    ensure!(pool.tree()?.count()? == keys, "keys are lost");
    drop(pool);
    fs::remove_file(path)?;
    Ok(Footprint {
        reopen_ms,
        bytes_per_key: loaded.chunks as f64 / keys as f64,
        private_mib: loaded.private as f64 / f64::from(1 << 20),
    })
}

/// Medians of a few processes that load `keys` keys each and are killed. The pool has room for `room` keys.
pub(super) fn measure(folder: &Path, keys: u64, room: usize) -> Result<Footprint> {
    let path = folder.join("footprint");
    let all = (0..ROUNDS)
        .map(|round| measure_once(&path, keys + round * STEP, room))
        .collect::<Result<Vec<_>>>()?;
    let middle = |of: fn(&Footprint) -> f64| median(&all.iter().map(of).collect::<Vec<_>>());
    Ok(Footprint {
        reopen_ms: middle(|one| one.reopen_ms),
        bytes_per_key: middle(|one| one.bytes_per_key),
        private_mib: middle(|one| one.private_mib),
    })
}
