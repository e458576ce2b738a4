//! obj-reopen, obj-open and obj-open-64g: the time of pmemobj_open after SIGKILL, and after pmemobj_close.
//!
//! A process opens a pool of 1 GiB and changes words at random in 800 MiB of it, a transaction a word, so that the log fills;
//! then it is killed. A second process opens the pool, compares its words with those that the first one had, and
//! closes it. A third one opens the closed pool. Each process has pages to map, as any program that starts.
//!
//! The pool of 64 GiB is new, in a file that has a few pages only. libpmemobj makes both files, and each library has opened and
//! closed its one before the first lap.

use super::Findings;
use crate::clock::Lap;
use crate::engine::Engine;
use crate::figure::Figure;
use crate::peers::{Driver, PmemCalls};
use crate::plan::{Selection, Size};
use crate::rounds::{Comparison, run_interleaved};
use anyhow::{Result, ensure};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// All rows.
pub(super) const ROWS: [&str; 3] = ["obj-reopen", "obj-open", SPARSE];

/// The rows of the pool that a process changes.
const CHANGED: [&str; 2] = ["obj-reopen", "obj-open"];

/// The row of a large pool.
const SPARSE: &str = "obj-open-64g";

/// Bytes of that pool.
const SPARSE_LEN: u64 = 64 << 30;

/// Bytes of the pages of that pool at most.
const SPARSE_USED_MAX: u64 = 256 << 20;

/// A library and its pool.
struct Maker<'a> {
    library: Option<&'a Path>,
    /// The start of the names of the driver's works with the pool, and the name of its file.
    pool: &'static str,
    folder: PathBuf,
}

impl Maker<'_> {
    /// Makes the pool in a new folder, with `len` bytes if it is the large one.
    fn create<'a>(
        library: Option<&'a Path>,
        pool: &'static str,
        folder: PathBuf,
        len: u64,
    ) -> Result<Maker<'a>> {
        fs::create_dir_all(&folder)?;
        let maker = Maker { library, pool, folder };
        let mut calls = maker.start()?;
        calls.lap(&maker.work("make"), len, 0)?;
        calls.lap(&maker.work("close"), 0, 0)?;
        Ok(maker)
    }

    fn work(&self, work: &str) -> String {
        format!("{}-{work}", self.pool)
    }

    fn start(&self) -> Result<PmemCalls> {
        PmemCalls::start(Driver::Objects, &self.folder, self.library, None)
    }

    /// Opens the pool, changes `count` words, and kills the process. Returns the digest of all words.
    fn change_and_kill(&self, count: u64, stamp: u64) -> Result<u64> {
        let mut calls = self.start()?;
        calls.lap(&self.work("open"), 0, 0)?;
        let (_, digest) = calls.lap(&self.work("change"), count, stamp)?;
        Ok(digest)
    }

    /// Opens the pool in a new process, and closes it. Returns the lap of the opening, and the digest of all words.
    fn open_and_close(&self) -> Result<(Lap, u64)> {
        let mut calls = self.start()?;
        let (lap, digest) = calls.lap(&self.work("open"), 0, 0)?;
        calls.lap(&self.work("close"), 0, 0)?;
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
    if CHANGED.iter().any(|row| selection.has(row)) {
        run_changed(library, selection, size, folder, findings)?;
    }
    if selection.has(SPARSE) {
        run_sparse(library, size, folder, findings)?;
    }
    Ok(())
}

/// Runs the rows of the pool that a process changes.
fn run_changed(
    library: &Path,
    selection: &Selection,
    size: &Size,
    folder: &Path,
    findings: &mut Findings,
) -> Result<()> {
    let folder = folder.join("reopened");
    let mut makers = [
        (Engine::Ours, Maker::create(Some(library), "reopened", folder.join("ours"), 0)?),
        (Engine::Libpmemobj, Maker::create(None, "reopened", folder.join("theirs"), 0)?),
    ];
    let mut found = HashMap::new();
    let comparisons = run_interleaved(&CHANGED, size.long_rounds, false, &mut makers, |round, _, maker| {
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
    comparisons
        .iter()
        .filter(|comparison| selection.has(&comparison.workload))
        .try_for_each(|comparison| report(comparison, comparison.workload == "obj-reopen", findings))
}

/// Runs the row of the large pool, and adds its figure and a note to `findings`.
fn run_sparse(library: &Path, size: &Size, folder: &Path, findings: &mut Findings) -> Result<()> {
    let folder = folder.join("sparse");
    let make = |library, name| -> Result<Maker<'_>> {
        let maker = Maker { library, ..Maker::create(None, "sparse", folder.join(name), SPARSE_LEN)? };
        maker.open_and_close()?;
        Ok(maker)
    };
    let mut makers =
        [(Engine::Ours, make(Some(library), "ours")?), (Engine::Libpmemobj, make(None, "theirs")?)];
    let comparisons = run_interleaved(&[SPARSE], size.long_rounds, false, &mut makers, |_, _, maker| {
        Ok(vec![maker.open_and_close()?.0])
    })?;
    for (engine, maker) in &makers {
        let used = fs::metadata(maker.folder.join(maker.pool))?.blocks() * 512;
        ensure!(used <= SPARSE_USED_MAX, "the pool of {engine:?} has pages of {used} bytes");
    }
    fs::remove_dir_all(&folder)?;
    report(&comparisons[0], false, findings)
}

/// Adds a row's figure and a note to `findings`: our time, or without `is_alone` what it is longer than that of libpmemobj.
fn report(comparison: &Comparison, is_alone: bool, findings: &mut Findings) -> Result<()> {
    let (ours, theirs) = (comparison.millis(Engine::Ours)?, comparison.millis(Engine::Libpmemobj)?);
    let value = if is_alone { ours } else { ours - theirs };
    let workload = comparison.workload.clone();
    findings.notes.push(format!("{workload}: lodestone {ours:.1} ms, libpmemobj {theirs:.1} ms"));
    findings.figures.push(Figure { workload, value });
    Ok(())
}
