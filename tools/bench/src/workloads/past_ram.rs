//! read-past-ram: gets from a store that is larger than the memory of its reader.
//!
//! A store of a million keys is filled, and taken out of the page cache. A process in a control group, which may use a
//! quarter of the data's bytes, page cache included, opens it and gets random keys. The first ones fill its memory, and
//! the others are timed.

use super::databases::{self, Filled, files_of};
use crate::clock::{Lap, lap};
use crate::engine::{Database, Engine, NoFigure};
use crate::pairs::Pairs;
use crate::peers::LmdbDatabase;
use crate::plan::Size;
use crate::rounds::{Comparison, Measured, run_interleaved};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use fastrand::Rng;
use rustix::fs::{Advice, fadvise};
use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Bytes of a key, of a value, and of a pool for each pair.
const KEY_LEN: usize = 16;
const VALUE_LEN: usize = 100;
const PAIR_ROOM: u64 = 256;
/// The data's bytes over those of its reader's memory.
const DATA_OVER_MEMORY: usize = 4;
/// Bytes that the program itself needs.
const MEMORY_MIN: usize = 16 << 20;

/// Runs the row.
pub(super) fn run(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let mut rng = Rng::with_seed(seed);
    let mut pairs = Pairs::random(size.store_keys, KEY_LEN, VALUE_LEN, &mut rng);
    // A value begins with its key, so that a get can be checked.
    pairs.sign();
    let room = size.store_keys as u64 * PAIR_ROOM;
    let mut engines = Vec::new();
    for engine in [Engine::Ours, Engine::Lmdb] {
        engines.push((engine, Filled::create(engine, folder, &pairs, room)?));
    }
    let memory = (pairs.len() * (KEY_LEN + VALUE_LEN) / DATA_OVER_MEMORY).max(MEMORY_MIN);
    let mut comparisons = run_interleaved(
        &["read-past-ram"],
        size.long_rounds,
        false,
        &mut engines,
        |round, engine, filled| {
            let mut rng = Rng::with_seed(seed ^ (round as u64) << 32);
            let keys: Vec<u8> = (0..2 * size.cold_gets)
                .flat_map(|_| pairs.pair(rng.usize(..pairs.len())).0)
                .copied()
                .collect();
            let keys_file = folder.join("keys");
            fs::write(&keys_file, keys)?;
            evict(filled.path())?;
            Ok(vec![read_in_group(engine, filled.path(), &keys_file, memory)?])
        },
    )?;
    // Each get of each engine has found the value of its key.
    comparisons[0].digest = 1;
    Ok(comparisons)
}

/// Takes the files of a store out of the page cache.
fn evict(path: &Path) -> Result<()> {
    for path in files_of(path)? {
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Runs a process that gets the keys, with so many bytes of memory.
fn read_in_group(engine: Engine, path: &Path, keys: &Path, memory: usize) -> Result<Measured> {
    let group = match MemoryGroup::create(memory) {
        Ok(group) => group,
        Err(error) => return Measured::of(Lap::default(), Err::<(), _>(NoFigure(error.to_string()).into())),
    };
    let name = engine.to_possible_value().context("every engine has a name")?;
    let mut child = Command::new(env::current_exe()?)
        .args(["--get", name.get_name(), "--store"])
        .arg(path)
        .arg("--keys")
        .arg(keys)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    group.add(child.id())?;
    drop(child.stdin.take());
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("asked for above")?).read_line(&mut line)?;
    ensure!(child.wait()?.success(), "the process that reads {engine} failed");
    let (ops, ns) = line.trim().split_once(' ').context("the reader has printed no time")?;
    Ok(Lap { ops: ops.parse()?, ns: ns.parse()?, ..Lap::default() }.into())
}

/// Waits until the input ends, gets the keys in the file at `keys` from the store at `path`, and prints the number of gets in
/// the second half and the nanoseconds that they took.
pub(crate) fn get_and_print(engine: Engine, path: &Path, keys: &Path) -> Result<()> {
    let keys = fs::read(keys)?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    let store: Box<dyn Database> = match engine {
        Engine::Lmdb => Box::new(LmdbDatabase::open_past_memory(path)?),
        other => databases::open(other, path, Duration::MAX)?,
    };
    let get = |keys: &[u8]| -> Result<()> {
        for key in keys.chunks_exact(KEY_LEN) {
            let value = store.get(key)?.context("a pair is lost")?;
            ensure!(value.starts_with(key), "a get found the value of another key");
        }
        Ok(())
    };
    let (first, second) = keys.split_at(keys.len() / KEY_LEN / 2 * KEY_LEN);
    get(first)?;
    let (lap, done) = lap(second.len() as u64 / KEY_LEN as u64, || get(second));
    done?;
    let mut out = io::stdout().lock();
    writeln!(out, "{} {}", lap.ops, lap.ns)?;
    out.flush()?;
    store.close()
}

/// A control group with a limit of memory. It is removed when this is dropped.
struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// The folders of control groups with a controller of memory, and the file of the limit: versions 1 and 2.
    const HIERARCHIES: [(&str, &str); 2] =
        [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

    fn create(bytes: usize) -> Result<MemoryGroup> {
        for (parent, limit) in MemoryGroup::HIERARCHIES {
            let group =
                MemoryGroup { folder: Path::new(parent).join(format!("lode-bench-{}", std::process::id())) };
            if fs::create_dir(&group.folder).is_ok()
                && fs::write(group.folder.join(limit), bytes.to_string()).is_ok()
            {
                return Ok(group);
            }
        }
        anyhow::bail!("no control group with a limit of memory can be made, which takes root")
    }

    fn add(&self, process: u32) -> Result<()> {
        fs::write(self.folder.join("cgroup.procs"), process.to_string())
            .with_context(|| format!("adding a process to {}", self.folder.display()))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A folder that was not made, or whose process was killed a moment ago.
        let _ = fs::remove_dir(&self.folder);
    }
}
