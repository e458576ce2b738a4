//! pmem-* and pmem2-*: the calls of libpmem and of libpmem2, of the same program in C on both makers' libraries.
//!
//! Each maker has a process, which keeps its files over all rounds. After a lap both areas must hold the same bytes.

use crate::engine::Engine;
use crate::peers::PmemCalls;
use crate::plan::{Selection, Size};
use crate::rounds::{Comparison, run_interleaved};
use anyhow::{Result, ensure};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The rows, and the number by which the accesses of a lap are divided.
const ROWS: [(&str, usize); 9] = [
    ("pmem-persist-8", 1),
    ("pmem-flush-drain-64x64", 10),
    ("pmem-memcpy-persist-64", 1),
    ("pmem-memcpy-persist-512", 1),
    ("pmem-memcpy-persist-4k", 4),
    ("pmem-memcpy-persist-1m", 250),
    ("pmem-map-file", 100),
    ("pmem2-persist-8", 1),
    ("pmem2-memcpy-4k", 4),
];

/// Runs the rows.
pub(super) fn run(selection: &Selection, size: &Size, folder: &Path) -> Result<Vec<Comparison>> {
    let library = ours()?;
    let start = |name: &str, library: Option<&Path>| {
        let folder = folder.join(name);
        fs::create_dir(&folder)?;
        PmemCalls::start(&folder, library)
    };
    let mut engines =
        [(Engine::Ours, start("ours", Some(&library))?), (Engine::Libpmem, start("libpmem", None)?)];
    let mut comparisons = Vec::new();
    for (row, divisor) in ROWS.into_iter().filter(|(row, _)| selection.has(row)) {
        if row.starts_with("pmem2-") {
            engines[1].0 = Engine::Libpmem2;
        }
        let count = (size.block_accesses / divisor).max(1) as u64;
        let (mut found, mut last) = (HashMap::new(), 0);
        let turn = |round: usize, _, calls: &mut PmemCalls| {
            let (lap, digest) = calls.lap(row, count, (round as u64) << 48)?;
            let first = *found.entry(round).or_insert(digest);
            ensure!(first == digest, "its area holds {digest:016x}, the one before it {first:016x}");
            last = digest;
            Ok(vec![lap])
        };
        let mut comparison = run_interleaved(&[row], size.rounds, true, &mut engines, turn)?;
        comparison[0].digest = last;
        comparisons.append(&mut comparison);
    }
    Ok(comparisons)
}

/// Returns the folder of our libraries, which `make capi` builds.
fn ours() -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| sources.join("target"), PathBuf::from);
    let folder = target.join("capi/lib");
    for name in ["libpmem.so.1", "libpmem2.so.1"] {
        ensure!(folder.join(name).exists(), "{} has no {name}: run `make capi`", folder.display());
    }
    Ok(folder.canonicalize()?)
}
