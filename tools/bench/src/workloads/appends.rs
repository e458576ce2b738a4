//! log-*: records of 64 bytes that are appended by one thread.
//!
//! Each engine keeps one log over all rounds, which was full once. Each round begins with a rewind before the clock. After a
//! lap all must hold the same records.

use crate::clock::lap;
use crate::engine::{Engine, RecordLog};
use crate::group::Durability;
use crate::ours;
use crate::peers::PmemLog;
use crate::plan::{Selection, Size};
use crate::rounds::{Comparison, common_digest, run_interleaved};
use anyhow::{Result, ensure};
use std::collections::HashMap;
use std::path::Path;

/// Bytes of a record.
const LEN: usize = 64;
/// Bytes of the file of a log.
const LOG_LEN: u64 = 128 << 20;
/// Records that one call appends while a log is filled, and in `log-appendv-64x64`.
const MANY: usize = 64;
/// Number by which the appends of a lap are divided where each has many records.
const DIVISOR: usize = 16;

/// Runs the rows.
pub(super) fn run(selection: &Selection, size: &Size, folder: &Path) -> Result<Vec<Comparison>> {
    let ours = ours::Log::create(&folder.join("ours-log"), LOG_LEN, Durability::Line.of_pool())?;
    let peer = PmemLog::create(&folder.join("libpmemlog-log"), LOG_LEN)?;
    let mut engines: [(Engine, Box<dyn RecordLog>); 2] =
        [(Engine::Ours, Box::new(ours)), (Engine::Libpmemlog, Box::new(peer))];
    for (_, log) in &mut engines {
        let times = log.room(LEN) / (MANY * LEN) - 1;
        log.append(&mut [1; MANY * LEN], LEN, times, 0)?;
    }
    let rows = [
        ("log-append-64", 1, size.block_accesses),
        ("log-appendv-64x64", MANY, size.block_accesses / DIVISOR),
    ];
    let mut comparisons = Vec::new();
    for (row, parts, times) in rows.into_iter().filter(|(row, ..)| selection.has(row)) {
        let mut records = vec![1; parts * LEN];
        let mut found = HashMap::new();
        let turn = |round: usize, _, log: &mut Box<dyn RecordLog>| {
            log.rewind()?;
            let stamp = (round as u64) << 48;
            let (lap, done) = lap(times as u64, || log.append(&mut records, LEN, times, stamp));
            done?;
            let digest = log.digest(LEN)?;
            let first = *found.entry(round).or_insert(digest);
            ensure!(first == digest, "it holds {digest:016x}, the one before it {first:016x}");
            Ok(vec![lap])
        };
        let mut comparison = run_interleaved(&[row], size.rounds, true, &mut engines, turn)?;
        let digests = engines.iter().map(|(engine, log)| Ok((*engine, log.digest(LEN)?)));
        comparison[0].digest = common_digest(row, &digests.collect::<Result<Vec<_>>>()?)?;
        comparisons.append(&mut comparison);
    }
    Ok(comparisons)
}
