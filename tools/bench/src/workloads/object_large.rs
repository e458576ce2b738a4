//! open-large-tx: commits of our libpmemobj beside one transaction that holds 256 MiB in ranges of 8 bytes.
//!
//! 15 threads commit a word each, again and again, from before the large transaction begins until it is aborted. Then
//! the driver compares: all words of the large transaction are as before, and each thread's has its last commit.

use super::Findings;
use crate::figure::Figure;
use crate::peers::{Driver, PmemCalls};
use crate::plan::Size;
use anyhow::Result;
use std::fs;
use std::path::Path;

/// Runs the row on the libraries in the folder `library`, and adds its figure and a note to `findings`.
pub(super) fn run(library: &Path, size: &Size, folder: &Path, findings: &mut Findings) -> Result<()> {
    let folder = folder.join("large");
    fs::create_dir(&folder)?;
    let mut calls = PmemCalls::start(Driver::Objects, &folder, Some(library), None)?;
    calls.lap("large-make", 0, 0)?;
    let (hold, _) = calls.lap("large-hold", size.held_words, 0)?;
    let (abort, _) = calls.lap("large-abort", 0, 0)?;
    let (slowest, commits) = calls.lap("large-stop", size.held_words, 0)?;
    drop(calls);
    fs::remove_dir_all(&folder)?;
    let millis = |ns: u64| ns as f64 / 1e6;
    findings.figures.push(Figure { workload: "open-large-tx".to_owned(), value: millis(slowest.ns) });
    findings.notes.push(format!(
        "open-large-tx: {} ranges added in {:.0} ms and aborted in {:.0} ms, beside {commits} commits, all of which are there",
        size.held_words,
        millis(hold.ns),
        millis(abort.ns)
    ));
    Ok(())
}
