//! obj-fences-*: the fences of an insert into the maps and trees of libpmemobj's examples that have something to wait for.
//!
//! Each map has processes of its own, one on each maker's library. The instructions that the process executes are counted, see
//! [`traps`](crate::traps): from an empty map to a full one, with all checkpoints of our log. Both maps must have the same content then.

use super::Findings;
use crate::figure::Figure;
use crate::peers::{Driver, PmemCalls};
use crate::plan::{Selection, Size};
use crate::traps::{CountedCalls, Fences};
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;

/// The rows, each of which is a work of the driver, too.
pub(super) const ROWS: [&str; 4] =
    ["obj-fences-btree", "obj-fences-rbtree", "obj-fences-hashmap-tx", "obj-fences-art"];

/// The starts of the names of the files whose code is counted: no other one in the process stores in pools.
const FILES: [&str; 4] = ["objects-driver", "libpmem.so", "libpmemobj.so", "libc.so"];

/// Runs the rows on the libraries in the folder `library`, and on the system's, and adds figures and notes to `findings`.
pub(super) fn run(
    library: &Path,
    selection: &Selection,
    size: &Size,
    folder: &Path,
    findings: &mut Findings,
) -> Result<()> {
    for row in ROWS.into_iter().filter(|row| selection.has(row)) {
        let count = size.counted_inserts;
        let folder = folder.join("counted");
        let (ours, content) = counted(row, Some(library), count, &folder)?;
        let (theirs, wanted) = counted(row, None, count, &folder)?;
        ensure!(content == wanted, "{row}: its content is {content:016x}, that of libpmemobj {wanted:016x}");
        let per_insert = |fences: u64| fences as f64 / count as f64;
        let value = per_insert(ours.waiting);
        findings.figures.push(Figure { workload: row.to_owned(), value });
        findings.notes.push(format!(
            "{row}: lodestone {value:.2} fences, libpmemobj {:.2}, in {count} inserts; with those that had nothing to wait for, {:.2} and {:.2}",
            per_insert(theirs.waiting),
            per_insert(ours.all),
            per_insert(theirs.all)
        ));
    }
    Ok(())
}

/// Returns the fences of `count` inserts, and the digest of the full map.
fn counted(row: &str, library: Option<&Path>, count: u64, folder: &Path) -> Result<(Fences, u64)> {
    fs::create_dir(folder)?;
    let mut calls = PmemCalls::start(Driver::Objects, folder, library, None)?;
    // The pool is made before fences are counted.
    calls.lap(row, 0, 0)?;
    let counted = CountedCalls::new(calls, &FILES)?.lap(row, count, 1)?;
    fs::remove_dir_all(folder)?;
    Ok(counted)
}
