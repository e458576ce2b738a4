//! atomic-open: the time to open a large pool of atomic blocks whose writer was killed.
//!
//! The pool is a sparse file on tmpfs: its contents take space when they are written. A process writes blocks, each durable,
//! and is killed; then the clock runs until the pool is open and the last block was read. Each process writes some more
//! blocks than the one before: it is killed with the log filled to another height.

use crate::clock::lap;
use crate::engine::{BlockStore, stamp_of};
use crate::figure::Figure;
use crate::group::Durability;
use crate::ours::Atomic;
use crate::plan::Size;
use crate::rounds::median;
use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use lode_blocks::{BlockPool, Blocks};
use lode_layout::{Geometry, Header};
use lode_pmem::Mapping;
use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use uuid::Uuid;

/// Bytes of a block.
const BLOCK: usize = 4096;
/// Times that a process writes and is killed.
const ROUNDS: u64 = 15;
/// Blocks that each writes more than the one before.
const STEP: u64 = 777;
/// Blocks that the first one writes.
const FIRST: u64 = 2000;

/// Runs the row.
pub(super) fn run(size: &Size, folder: &Path) -> Result<Figure> {
    let path = folder.join("blocks");
    create_sparse(&path, size.opened_len)?;
    let rounds = if size.opened_len < 1 << 30 { 2 } else { ROUNDS };
    let mut times = Vec::new();
    for round in 0..rounds {
        let writes = FIRST + round * STEP;
        write_and_kill(&path, writes)?;
        let mut block = vec![0; BLOCK];
        let (lap, opened) = lap(1, || {
            let blocks = Atomic::open(&path, Durability::Line.of_pool())?;
            let last = *order(writes, blocks.count()).last().context("no writes")?;
            blocks.read_checked(&[last], &mut block)?;
            anyhow::Ok(blocks)
        });
        drop(opened?);
        ensure!(stamp_of(&block) == writes - 1, "the last write is lost");
        times.push(lap.ns as f64 / 1e6);
    }
    Ok(Figure { workload: "atomic-open".to_owned(), value: median(&times) })
}

/// The blocks that a process writes, of `count` in all.
fn order(writes: u64, count: u64) -> Vec<u32> {
    let mut rng = Rng::with_seed(writes);
    (0..writes).map(|_| rng.u64(..count) as u32).collect()
}

/// Makes a pool of atomic blocks in a new file that takes no space for its contents.
fn create_sparse(path: &Path, len: u64) -> Result<()> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    file.set_len(len)?;
    let durability = Durability::Line.of_pool();
    let medium = Mapping::options().durability(durability).map_file(file, path)?;
    let header = Header::new(Uuid::new_v4(), BlockPool::layout(), Geometry::plan(len)?, durability, 0);
    let epoch = lode_redo::random_log_epoch()?;
    lode_pool::format::<_, anyhow::Error>(&medium, header, |medium, header| {
        let uuid = header.uuid.as_bytes();
        Ok(Blocks::format(medium, &header.geometry, uuid, BLOCK as u32, epoch)?)
    })?;
    Ok(())
}

/// Starts a process that writes blocks, and kills it when it says that it has done so.
fn write_and_kill(path: &Path, writes: u64) -> Result<()> {
    let mut child = Command::new(env::current_exe()?)
        .arg("--write")
        .arg(path)
        .args(["--writes", &writes.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("asked for above")?).read_line(&mut line)?;
    child.kill()?;
    child.wait()?;
    ensure!(line == "written\n", "the writing process failed");
    Ok(())
}

/// Writes blocks to the pool at `path`, says so, and waits until the input ends or the process is killed.
pub(crate) fn write_and_wait(path: &Path, writes: u64) -> Result<()> {
    let mut blocks = Atomic::open(path, Durability::Line.of_pool())?;
    let order = order(writes, blocks.count());
    blocks.write(&order, 1, &mut vec![1; BLOCK], 0)?;
    let mut out = io::stdout().lock();
    writeln!(out, "written")?;
    out.flush()?;
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(())
}
