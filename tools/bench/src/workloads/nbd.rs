//! nbd-*: volumes that fio reads and writes as network block devices, through unix sockets.
//!
//! Each server runs over all rounds; one that is not asked sleeps. Before the first lap fio writes and verifies all blocks,
//! so no page is touched first within a lap. A lap is a process of fio; what it counts between its own begin and end counts.

use crate::clock::Lap;
use crate::engine::{Engine, NoFigure};
use crate::peers::{NbdServer, installed, run_fio};
use crate::plan::{Selection, Size};
use crate::rounds::{Comparison, Measured, run_interleaved};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

const ENGINES: [Engine; 3] = [Engine::Ours, Engine::Nbdkit, Engine::QemuNbd];
/// The rows: kind of access, and requests at a time.
const ROWS: [(&str, &str, u32); 3] = [
    ("nbd-write-4k-qd1", "randwrite", 1),
    ("nbd-write-4k-qd32", "randwrite", 32),
    ("nbd-read-4k-qd32", "randread", 32),
];

/// A server that runs, or the reason why there is none.
type Side = std::result::Result<NbdServer, String>;

/// Runs the rows.
pub(super) fn run(selection: &Selection, size: &Size, folder: &Path) -> Result<Vec<Comparison>> {
    let mut engines = Vec::new();
    for engine in ENGINES {
        engines.push((engine, start(engine, folder, size.blocks_len)?));
    }
    let rows = ROWS.into_iter().filter(|(row, ..)| selection.has(row)).collect::<Vec<_>>();
    let names: Vec<&str> = rows.iter().map(|(row, ..)| *row).collect();
    let turn = |_: usize, _: Engine, side: &mut Side| {
        let lap = |(_, access, depth): &(&str, &str, u32)| match side {
            Ok(server) => Ok(Measured::Lap(one_lap(server, access, *depth, size)?)),
            Err(reason) => Ok(Measured::Absent(reason.clone())),
        };
        rows.iter().map(lap).collect()
    };
    let mut comparisons = run_interleaved(&names, size.long_rounds, false, &mut engines, turn)?;
    // Each server returned all that was written before the first lap.
    comparisons.iter_mut().for_each(|comparison| comparison.digest = size.blocks_len);
    Ok(comparisons)
}

/// Starts a server, and writes and verifies all of its blocks.
fn start(engine: Engine, folder: &Path, len: u64) -> Result<Side> {
    let started = NbdServer::start(engine, folder, len).and_then(|server| {
        let mut fio = fio(&server, len)?;
        fio.args([
            "--rw=write",
            "--bs=64k",
            "--iodepth=8",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
        ]);
        run_fio(&mut fio).with_context(|| format!("verifying {engine}"))?;
        Ok(server)
    });
    match started {
        Ok(server) => Ok(Ok(server)),
        Err(error) => error.downcast().map(|NoFigure(reason)| Err(reason)),
    }
}

fn fio(server: &NbdServer, len: u64) -> Result<Command> {
    let mut fio = installed("fio")?;
    fio.args(["--name=lap", "--ioengine=nbd", "--output-format=json", "--thread=1"]);
    fio.arg(format!("--uri={}", server.uri())).arg(format!("--size={len}"));
    Ok(fio)
}

fn one_lap(server: &NbdServer, access: &str, depth: u32, size: &Size) -> Result<Lap> {
    let mut fio = fio(server, size.blocks_len)?;
    fio.args([format!("--rw={access}"), format!("--iodepth={depth}")]);
    fio.args(["--bs=4k", "--norandommap=1", "--time_based=1"]);
    fio.arg(format!("--runtime={}ms", size.client_lap.as_millis()));
    let job = run_fio(&mut fio)?;
    if access == "randread" { job.read } else { job.write }.lap()
}
