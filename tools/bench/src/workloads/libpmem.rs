//! pmem-*, pmem2-*, abi-* and obj-*: the calls of PMDK's C libraries, of the same program in C on both makers' libraries.
//!
//! Each maker has a process, which keeps its files over all rounds. After a lap both must hold the same content.

use super::{
    Findings, object_fences, object_large, object_private, object_reopen, object_threads, pmem_programs,
};
use crate::engine::Engine;
use crate::peers::{Driver, PmemCalls};
use crate::plan::{Selection, Size, THREADS};
use crate::rounds::{Comparison, run_interleaved};
use anyhow::{Result, ensure};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A row: its name, the number by which the accesses of a lap are divided, and the peer.
type Row = (&'static str, usize, Engine);

/// The rows of libpmem and libpmem2.
const ROWS: [Row; 9] = [
    ("pmem-persist-8", 1, Engine::Libpmem),
    ("pmem-flush-drain-64x64", 10, Engine::Libpmem),
    ("pmem-memcpy-persist-64", 1, Engine::Libpmem),
    ("pmem-memcpy-persist-512", 1, Engine::Libpmem),
    ("pmem-memcpy-persist-4k", 4, Engine::Libpmem),
    ("pmem-memcpy-persist-1m", 250, Engine::Libpmem),
    ("pmem-map-file", 100, Engine::Libpmem),
    ("pmem2-persist-8", 1, Engine::Libpmem2),
    ("pmem2-memcpy-4k", 4, Engine::Libpmem2),
];

/// The rows of libpmemlog and libpmemblk on memory.
const POOL_ROWS: [Row; 5] = [
    ("abi-log-append-64", 1, Engine::Libpmemlog),
    ("abi-log-appendv-64x64", 20, Engine::Libpmemlog),
    ("abi-blk-write-512", 1, Engine::Libpmemblk),
    ("abi-blk-write-4k", 4, Engine::Libpmemblk),
    ("abi-blk-read-4k", 4, Engine::Libpmemblk),
];

/// The rows of libpmemlog and libpmemblk on an ordinary file, with a sync in each access.
const FILE_ROWS: [Row; 2] =
    [("abi-log-append-file", 1, Engine::Libpmemlog), ("abi-blk-write-4k-file", 1, Engine::Libpmemblk)];

/// The rows of libpmemobj on memory.
const OBJECT_ROWS: [Row; 20] = [
    ("obj-tx-1-64k", 1, Engine::Libpmemobj),
    ("obj-tx-4-64k", 4, Engine::Libpmemobj),
    ("obj-tx-16-64k", 16, Engine::Libpmemobj),
    ("obj-tx-1-16m", 1, Engine::Libpmemobj),
    ("obj-tx-4-16m", 4, Engine::Libpmemobj),
    ("obj-tx-16-16m", 16, Engine::Libpmemobj),
    ("obj-tx-1-128m", 1, Engine::Libpmemobj),
    ("obj-tx-4-128m", 4, Engine::Libpmemobj),
    ("obj-tx-16-128m", 16, Engine::Libpmemobj),
    ("obj-tx-alloc", 4, Engine::Libpmemobj),
    ("obj-alloc-free", 4, Engine::Libpmemobj),
    ("obj-reserve-publish-free", 4, Engine::Libpmemobj),
    ("obj-tx-empty", 1, Engine::Libpmemobj),
    ("obj-mutex", 1, Engine::Libpmemobj),
    ("obj-persist-8", 1, Engine::Libpmemobj),
    ("obj-memcpy-persist-4k", 4, Engine::Libpmemobj),
    ("obj-btree-insert", 2, Engine::Libpmemobj),
    ("obj-rbtree-insert", 2, Engine::Libpmemobj),
    ("obj-hashmap-tx-insert", 2, Engine::Libpmemobj),
    ("obj-art-insert", 2, Engine::Libpmemobj),
];

/// The rows of libpmemobj on memory with ours in careful mode.
const CAREFUL_OBJECT_ROWS: [Row; 3] = [
    ("obj-careful-1-16m", 1, Engine::Libpmemobj),
    ("obj-careful-4-16m", 4, Engine::Libpmemobj),
    ("obj-careful-16-16m", 16, Engine::Libpmemobj),
];

/// The variable of the environment that opens pools of our libpmemobj in careful mode.
const CAREFUL: (&str, &str) = ("LODE_OBJ", "careful");

/// The rows of libpmemobj on an ordinary file, with a sync in each transaction.
const FILE_OBJECT_ROWS: [Row; 4] = [
    ("file-obj-tx-1-64k", 1, Engine::Libpmemobj),
    ("file-obj-tx-4-64k", 1, Engine::Libpmemobj),
    ("file-obj-tx-alloc", 1, Engine::Libpmemobj),
    ("file-obj-art-insert", 1, Engine::Libpmemobj),
];

/// The row of libpmemobj on an ordinary file whose transactions many threads share.
const SHARED_FILE_OBJECT_ROWS: [Row; 1] = [("file-obj-16", 1, Engine::Libpmemobj)];

/// Number by which the transactions of a thread of [`SHARED_FILE_OBJECT_ROWS`] are divided.
const SHARED_DIVISOR: usize = 4;

/// The processes that rows share.
struct Pair<'a> {
    driver: Driver,
    /// Name of the folder of both makers' files.
    name: &'a str,
    /// A variable of the environment of the process on our library.
    setting: Option<(&'a str, &'a str)>,
    /// Accesses of a lap, before they are divided.
    accesses: usize,
}

impl<'a> Pair<'a> {
    fn new(driver: Driver, name: &'a str, accesses: usize) -> Pair<'a> {
        Pair { driver, name, setting: None, accesses }
    }
}

/// Runs the rows of libpmem and libpmem2.
pub(super) fn run(selection: &Selection, size: &Size, folder: &Path) -> Result<Vec<Comparison>> {
    run_rows(&Pair::new(Driver::Pmem, "pmem", size.block_accesses), &ROWS, selection, size, folder)
}

/// Runs the rows of libpmemlog and libpmemblk on memory.
pub(super) fn run_pools(selection: &Selection, size: &Size, folder: &Path) -> Result<Vec<Comparison>> {
    run_rows(&Pair::new(Driver::Pools, "pools", size.block_accesses), &POOL_ROWS, selection, size, folder)
}

/// Runs the rows of libpmemlog and libpmemblk on an ordinary file.
pub(super) fn run_file_pools(selection: &Selection, size: &Size, folder: &Path) -> Result<Vec<Comparison>> {
    run_rows(&Pair::new(Driver::Pools, "pools", size.file_transactions), &FILE_ROWS, selection, size, folder)
}

/// Runs the rows of libpmemobj on memory.
pub(super) fn run_objects(selection: &Selection, size: &Size, folder: &Path) -> Result<Findings> {
    let plain = Pair::new(Driver::Objects, "objects", size.block_accesses);
    let careful = Pair { name: "careful", setting: Some(CAREFUL), ..plain };
    let mut comparisons = run_rows(&plain, &OBJECT_ROWS, selection, size, folder)?;
    comparisons.extend(run_rows(&careful, &CAREFUL_OBJECT_ROWS, selection, size, folder)?);
    let mut findings = Findings { comparisons, ..Findings::default() };
    if selection.has("obj-threads-2") {
        findings.figures.push(object_threads::run(&ours()?, size, folder)?);
    }
    if object_reopen::ROWS.iter().any(|row| selection.has(row)) {
        object_reopen::run(&ours()?, selection, size, folder, &mut findings)?;
    }
    if selection.has(object_private::ROW) {
        findings.figures.push(object_private::run(&ours()?, size, folder)?);
    }
    if object_fences::ROWS.iter().any(|row| selection.has(row)) {
        object_fences::run(&ours()?, selection, size, folder, &mut findings)?;
    }
    if selection.has("open-large-tx") {
        object_large::run(&ours()?, size, folder, &mut findings)?;
    }
    Ok(findings)
}

/// Runs the rows of libpmemobj on an ordinary file.
pub(super) fn run_file_objects(selection: &Selection, size: &Size, folder: &Path) -> Result<Vec<Comparison>> {
    let one = Pair::new(Driver::Objects, "objects", size.file_transactions);
    let of_a_thread = (size.file_transactions / SHARED_DIVISOR).max(1);
    let many = Pair { name: "shared", accesses: THREADS * of_a_thread, ..one };
    let mut comparisons = run_rows(&one, &FILE_OBJECT_ROWS, selection, size, folder)?;
    comparisons.extend(run_rows(&many, &SHARED_FILE_OBJECT_ROWS, selection, size, folder)?);
    Ok(comparisons)
}

/// Runs the rows of programs that are not compiled anew.
pub(super) fn run_programs(selection: &Selection, size: &Size, folder: &Path) -> Result<Findings> {
    pmem_programs::run(&ours()?, selection, size, folder)
}

/// Runs those of `rows` that are selected, and removes their files.
fn run_rows(
    pair: &Pair<'_>,
    rows: &[Row],
    selection: &Selection,
    size: &Size,
    folder: &Path,
) -> Result<Vec<Comparison>> {
    if !rows.iter().any(|(row, ..)| selection.has(row)) {
        return Ok(Vec::new());
    }
    let library = ours()?;
    let folder = folder.join(pair.name);
    let start = |name: &str, library: Option<&Path>, setting| {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        PmemCalls::start(pair.driver, &folder, library, setting)
    };
    let mut engines = [
        (Engine::Ours, start("ours", Some(&library), pair.setting)?),
        (Engine::Libpmem, start("theirs", None, None)?),
    ];
    let mut comparisons = Vec::new();
    for (row, divisor, peer) in rows.iter().copied().filter(|(row, ..)| selection.has(row)) {
        engines[1].0 = peer;
        let count = (pair.accesses / divisor).max(1) as u64;
        let (mut found, mut last) = (HashMap::new(), 0);
        let turn = |round: usize, _, calls: &mut PmemCalls| {
            let (lap, digest) = calls.lap(row, count, (round as u64) << 48)?;
            let first = *found.entry(round).or_insert(digest);
            ensure!(first == digest, "its content is {digest:016x}, that of the one before it {first:016x}");
            last = digest;
            Ok(vec![lap])
        };
        let mut comparison = run_interleaved(&[row], size.rounds, true, &mut engines, turn)?;
        comparison[0].digest = last;
        comparisons.append(&mut comparison);
    }
    drop(engines);
    fs::remove_dir_all(&folder)?;
    Ok(comparisons)
}

/// Returns the folder of our libraries, which `make capi` builds.
fn ours() -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| sources.join("target"), PathBuf::from);
    let folder = target.join("capi/lib");
    for name in
        ["pmem", "pmem2", "pmemlog", "pmemblk", "pmempool", "pmemobj"].map(|name| format!("lib{name}.so.1"))
    {
        ensure!(folder.join(&name).exists(), "{} has no {name}: run `make capi`", folder.display());
    }
    Ok(folder.canonicalize()?)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::group::Group;
    use crate::targets::{Goal, WORKLOADS};

    /// Asserts that these are the rows with peers of a group.
    fn assert_rows(group: Group, tables: &[&[Row]]) {
        let of_group = WORKLOADS.iter().filter(|row| row.group == group);
        let listed = of_group.filter(|row| matches!(row.goal, Goal::Ratios(_))).map(|row| row.name);
        let run = tables.iter().copied().flatten().map(|(name, ..)| *name);
        assert_eq!(listed.collect::<Vec<_>>(), run.collect::<Vec<_>>());
    }

    #[test]
    fn each_row_is_run() {
        assert_rows(Group::Libpmem, &[&ROWS]);
        assert_rows(Group::Libpools, &[&POOL_ROWS]);
        assert_rows(Group::FileLibpools, &[&FILE_ROWS]);
        assert_rows(Group::Libpmemobj, &[&OBJECT_ROWS, &CAREFUL_OBJECT_ROWS]);
        assert_rows(Group::FileLibpmemobj, &[&FILE_OBJECT_ROWS, &SHARED_FILE_OBJECT_ROWS]);
        assert_rows(Group::PmemPrograms, &[&pmem_programs::FIO_ROWS.map(|(row, _, peer)| (row, 1, peer))]);
    }
}
