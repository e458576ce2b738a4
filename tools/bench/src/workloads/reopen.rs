//! reopen-kill: the time from SIGKILL to the first get.
//!
//! A process opens a copy of a store of a million keys and puts pairs, each in a synced transaction. Then it is killed.
//! The clock runs from the signal, over the end of the process and the opening, to the value of the last pair that it
//! acknowledged. Afterwards all of them must be there.

use super::databases::{self, Filled};
use crate::clock::lap;
use crate::engine::Engine;
use crate::pairs::Pairs;
use crate::plan::Size;
use crate::rounds::{Comparison, run_interleaved};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use fastrand::Rng;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Bytes of a key, of a value, and of a pool for each pair.
const KEY_LEN: usize = 16;
const VALUE_LEN: usize = 100;
const PAIR_ROOM: u64 = 256;

const ENGINES: [Engine; 5] = [Engine::Ours, Engine::Redb, Engine::Lmdb, Engine::Sqlite, Engine::Rocksdb];

/// The pairs that a process commits.
fn committed(count: usize, seed: u64) -> Pairs {
    Pairs::random(count, KEY_LEN, VALUE_LEN, &mut Rng::with_seed(seed))
}

/// Runs the row.
pub(super) fn run(size: &Size, seed: u64, folder: &Path) -> Result<Vec<Comparison>> {
    let stored = Pairs::random(size.store_keys, KEY_LEN, VALUE_LEN, &mut Rng::with_seed(seed));
    let room = (size.store_keys + size.commits) as u64 * PAIR_ROOM;
    let mut engines = Vec::new();
    for engine in ENGINES {
        engines.push((engine, Filled::create(engine, folder, &stored, room)?));
    }
    let mut comparisons =
        run_interleaved(&["reopen-kill"], size.long_rounds, false, &mut engines, |round, engine, filled| {
            let seed = seed ^ (round as u64) << 32;
            let path = filled.copy()?;
            let mut child = start(engine, path, size.commits, seed)?;
            let pairs = committed(size.commits, seed);
            let (last, _) = pairs.iter().last().context("no pairs")?;
            let (lap, opened) = lap(1, || {
                child.kill()?;
                child.wait()?;
                let store = databases::open(engine, path, Duration::MAX)?;
                let found = store.get(last)?;
                anyhow::Ok((store, found))
            });
            let (store, found) = opened?;
            ensure!(found.is_some(), "{engine} lost the last pair");
            for (key, value) in pairs.iter() {
                ensure!(store.get(key)?.as_deref() == Some(value), "{engine} lost an acknowledged pair");
            }
            ensure!(store.count()? == (stored.len() + pairs.len()) as u64, "{engine} lost pairs");
            store.close()?;
            filled.remove_copy()?;
            Ok(vec![lap])
        })?;
    // Every engine had each pair that it acknowledged.
    comparisons[0].digest = ENGINES.len() as u64;
    Ok(comparisons)
}

/// The arguments of a process that commits pairs.
fn arguments(engine: Engine, path: &Path, commits: usize, seed: u64) -> Result<Vec<OsString>> {
    let engine = engine.to_possible_value().context("every engine has a name")?;
    let texts =
        ["--commit", engine.get_name(), "--commits", &commits.to_string(), "--seed", &seed.to_string()];
    let mut arguments: Vec<OsString> = texts.map(OsString::from).into();
    arguments.extend(["--store".into(), path.into()]);
    Ok(arguments)
}

/// Starts a process that commits pairs, and waits until it has done so.
fn start(engine: Engine, path: &Path, commits: usize, seed: u64) -> Result<Child> {
    let mut child = Command::new(env::current_exe()?)
        .args(arguments(engine, path, commits, seed)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("asked for above")?).read_line(&mut line)?;
    ensure!(line == "committed\n", "the committing process failed");
    Ok(child)
}

/// Counts the syncs of a process that commits pairs to the store at `path`, less those of one that commits none: opening
/// and closing sync, too. Returns the reason in their place if strace can't count them.
pub(super) fn syncs_of_commits(engine: Engine, path: &Path, commits: usize) -> Result<String> {
    let mut counts = Vec::new();
    for commits in [0, commits] {
        let mut trace = path.as_os_str().to_owned();
        trace.push("-trace");
        let output = Command::new("strace")
            .args(["-f", "-e", "trace=fdatasync,fsync,msync,pwritev2", "-o"])
            .arg(&trace)
            .arg(env::current_exe()?)
            .args(arguments(engine, path, commits, 1)?)
            .stdin(Stdio::null())
            .output();
        if !output.is_ok_and(|output| output.status.success()) {
            return Ok("N/A (no strace)".to_owned());
        }
        let text = fs::read_to_string(&trace)?;
        fs::remove_file(&trace)?;
        counts.push(text.lines().filter(|line| is_sync(line)).count());
    }
    Ok((counts[1] as i64 - counts[0] as i64).to_string())
}

/// Returns true for a line of strace that shows a call that syncs; once for each call.
fn is_sync(line: &str) -> bool {
    let syncs = ["fdatasync(", "fsync(", "msync("].iter().any(|call| line.contains(call));
    // If another thread made a call meanwhile, only the end of the write, which strace calls resumed, has the flags.
    syncs || (line.contains("pwritev2") && line.contains("RWF_DSYNC"))
}

/// Commits pairs one by one to the store at `path`, says so, and waits until the input ends or the process is killed.
pub(crate) fn commit_and_wait(engine: Engine, path: &Path, commits: usize, seed: u64) -> Result<()> {
    let store = databases::open(engine, path, Duration::MAX)?;
    for (key, value) in committed(commits, seed).iter() {
        store.put(key, value)?;
    }
    let mut out = io::stdout().lock();
    writeln!(out, "committed")?;
    out.flush()?;
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    store.close()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_sync_is_counted_once() {
        let trace = [
            "7 fdatasync(5 <unfinished ...>",
            "7 <... fdatasync resumed>) = 0",
            "7 pwritev2(3, [{iov_base=..., iov_len=512}], 1, 4096, RWF_DSYNC) = 512",
            "7 pwritev2(3, [{iov_base=..., iov_len=512}], 1, 4096, RWF_HIPRI) = 512",
            "8 pwritev2(3,  <unfinished ...>",
            "8 <... pwritev2 resumed>[{iov_base=..., iov_len=512}], 1, 4096, RWF_DSYNC) = 512",
            "9 +++ exited with 0 +++",
        ];
        assert_eq!(trace.map(is_sync), [true, false, true, false, false, true, false]);
    }
}
