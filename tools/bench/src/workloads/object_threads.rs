//! obj-threads-2: commits of two threads of our libpmemobj, over those of one.
//!
//! There are two sets of words of 64 KiB. One thread changes both, one after the other; two threads change one each, at
//! the same time. A transaction changes one word. Both leave the same content, which is compared.

use crate::figure::Figure;
use crate::peers::{Driver, PmemCalls};
use crate::plan::Size;
use crate::rounds::median;
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;

/// Runs the row on the libraries in the folder `library`.
pub(super) fn run(library: &Path, size: &Size, folder: &Path) -> Result<Figure> {
    let folder = folder.join("threads");
    fs::create_dir(&folder)?;
    let mut calls = PmemCalls::start(Driver::Objects, &folder, Some(library), None)?;
    let mut ratios = Vec::new();
    // The laps of round 0 warm up.
    for round in 0..=size.rounds {
        let stamp = (round as u64) << 48;
        let mut lap = |work| calls.lap(work, 2 * size.block_accesses as u64, stamp);
        let [(one, first), (two, second)] = if round % 2 == 0 {
            [lap("obj-threads-1")?, lap("obj-threads-2")?]
        } else {
            let two = lap("obj-threads-2")?;
            [lap("obj-threads-1")?, two]
        };
        ensure!(
            first == second,
            "content of obj-threads-2: {first:016x} by one thread, {second:016x} by two"
        );
        if round > 0 {
            ratios.push(one.ns as f64 / two.ns as f64);
        }
    }
    drop(calls);
    fs::remove_dir_all(&folder)?;
    Ok(Figure { workload: "obj-threads-2".to_owned(), value: median(&ratios) })
}
