//! obj-reopen and obj-open: the time of pmemobj_open after SIGKILL, and after pmemobj_close.
//!
//! A process opens a pool of 1 GiB and changes words at random in 800 MiB of it, a transaction a word, so that the log fills;
//! then it is killed. A second process opens the pool, compares its words with those that the first one had, and
//! closes it. A third one opens the closed pool. Each process has pages to map, as any program that starts.

use super::Findings;
use crate::clock::Lap;
use crate::engine::Engine;
use crate::figure::Figure;
use crate::peers::{Driver, PmemCalls};
use crate::plan::{Selection, Size};
use crate::rounds::{Comparison, EngineLaps, run_interleaved};
use crate::unit::Unit;
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

const ROWS: [&str; 2] = ["obj-reopen", "obj-open"];

/// A library and its pool.
struct Maker<'a> {
    library: Option<&'a Path>,
    folder: PathBuf,
}

impl Maker<'_> {
    /// Makes the pool in a new folder.
    fn create<'a>(library: Option<&'a Path>, folder: PathBuf) -> Result<Maker<'a>> {
        fs::create_dir_all(&folder)?;
        let maker = Maker { library, folder };
        let mut calls = maker.start()?;
        calls.lap("reopened-make", 0, 0)?;
        calls.lap("reopened-close", 0, 0)?;
        Ok(maker)
    }

    fn start(&self) -> Result<PmemCalls> {
        PmemCalls::start(Driver::Objects, &self.folder, self.library, None)
    }

    /// Opens the pool, changes `count` words, and kills the process. Returns the digest of all words.
    fn change_and_kill(&self, count: u64, stamp: u64) -> Result<u64> {
        let mut calls = self.start()?;
        calls.lap("reopened-open", 0, 0)?;
        let (_, digest) = calls.lap("reopened-change", count, stamp)?;
        Ok(digest)
    }

    /// Opens the pool in a new process, and closes it. Returns the lap of the opening, and the digest of all words.
    fn open_and_close(&self) -> Result<(Lap, u64)> {
        let mut calls = self.start()?;
        let (lap, digest) = calls.lap("reopened-open", 0, 0)?;
        calls.lap("reopened-close", 0, 0)?;
        Ok((Lap { ops: 1, ..lap }, digest))
    }
}

/// Runs the rows on the libraries in the folder `library`, and on the system's, and adds figures and notes to `findings`.
pub(super) fn run(
    library: &Path,
    selection: &Selection,
    size: &Size,
    folder: &Path,
    findings: &mut Findings,
) -> Result<()> {
    let folder = folder.join("reopened");
    let mut makers = [
        (Engine::Ours, Maker::create(Some(library), folder.join("ours"))?),
        (Engine::Libpmemobj, Maker::create(None, folder.join("theirs"))?),
    ];
    let mut found = HashMap::new();
    let comparisons = run_interleaved(&ROWS, size.long_rounds, false, &mut makers, |round, _, maker| {
        let changed = maker.change_and_kill(size.reopened_transactions, (round as u64) << 48)?;
        let (killed, after_kill) = maker.open_and_close()?;
        let (closed, after_close) = maker.open_and_close()?;
        let first = *found.entry(round).or_insert(changed);
        for digest in [changed, after_kill, after_close] {
            ensure!(digest == first, "words are {digest:016x} in place of {first:016x}");
        }
        Ok(vec![killed, closed])
    })?;
    fs::remove_dir_all(&folder)?;
    for comparison in comparisons.iter().filter(|comparison| selection.has(&comparison.workload)) {
        let (ours, theirs) = (millis(comparison, Engine::Ours)?, millis(comparison, Engine::Libpmemobj)?);
        let value = if comparison.workload == "obj-open" { ours - theirs } else { ours };
        findings.figures.push(Figure { workload: comparison.workload.clone(), value });
        findings
            .notes
            .push(format!("{}: lodestone {ours:.1} ms, libpmemobj {theirs:.1} ms", comparison.workload));
    }
    Ok(())
}

/// The median of an engine.
fn millis(comparison: &Comparison, engine: Engine) -> Result<f64> {
    let laps = comparison.entries.iter().find(|entry| entry.engine == engine);
    laps.map(|laps: &EngineLaps| laps.median(Unit::Millis)).context("an engine did not run")
}
